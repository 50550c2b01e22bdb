use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Message;

pub struct CotPrompt;

impl RowFunction for CotPrompt {
    const DECLARATION: Declaration = Declaration {
        name: "cot_prompt",
        about: "The prompt of a training example: the question as the user's message, in a list of structs with role and content.",
        arguments: &[Argument::new("question", Arg::Text, "The question.")],
        example: "select cot_prompt('2 + 2?');\n-- [{role: user, content: 2 + 2?}]",
    };
    type Needs = ();
    type Output<'a> = Message<false>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Message<false>> {
        Ok(Message(row.text(0)?.to_string()))
    }
}
