use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Messages;

pub(crate) struct CotPrompt;

impl RowFunction for CotPrompt {
    const DECLARATION: Declaration = Declaration {
        name: "cot_prompt",
        about: "The prompt of a training example, in a list of structs with role and content. The list holds the system prompt and then the question as the user's message. A NULL or blank system prompt is left out.",
        arguments: &[
            Argument::new("question", Arg::Text, "The question."),
            Argument::optional("system", Arg::Text, "The system prompt."),
        ],
        example: "select cot_prompt('2 + 2?', 'Be brief.');\n-- [{role: system, content: Be brief.}, {role: user, content: 2 + 2?}]",
    };
    type Needs = ();
    type Output<'a> = Messages;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Messages> {
        let question = ("user", row.text(0)?.to_string());
        let system = row.text(1).ok().filter(|system| !system.trim().is_empty());
        Ok(Messages(system.map(|system| ("system", system.to_string())).into_iter().chain([question]).collect()))
    }
}
