use asap_kernels::tags;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Messages;

pub(crate) struct CotCompletion;

impl RowFunction for CotCompletion {
    const DECLARATION: Declaration = Declaration {
        name: "cot_completion",
        about: "The completion of a training example, in a list of structs with role and content. The list holds one message of the assistant: the chain between think tags and, after a blank line, the answer. A NULL answer is left out. A NULL chain gives NULL.",
        arguments: &[
            Argument::new("cot", Arg::Text, "The chain of thought."),
            Argument::new("answer", Arg::Text, "The text that follows the chain."),
        ],
        example: "select cot_completion('2 and 2 is 4', '4');\n-- [{role: assistant, content: <think>\\n2 and 2 is 4\\n</think>\\n\\n4}]",
    };
    type Needs = ();
    type Output<'a> = Messages;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Messages> {
        let answer = row.text(1).unwrap_or_default();
        Ok(Messages(vec![("assistant", tags::wrap(row.text(0)?, answer))]))
    }
}
