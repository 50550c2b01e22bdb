use std::borrow::Cow;

use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotAnswer;

impl RowFunction for CotAnswer {
    const DECLARATION: Declaration = Declaration {
        name: "cot_answer",
        about: "The final answer that a response states behind its chain of thought: what its last `\\boxed` holds (neighbouring boxes with \"and\", \"or\" or a comma between them are a list), else what follows its last \"answer is\" or \"answer:\", else its last `####`. NULL where none of them is there, and where the chain is cut off: an opening tag without its closing one. Searched are the last 65,536 bytes.",
        arguments: &[Argument::new("response", Arg::Text, "What a model wrote, with its chain of thought or without.")],
        example: "select cot_answer('<think>Maybe \\boxed{5}?</think>It is \\boxed{4}.');\n-- 4",
    };
    type Needs = ();
    type Output<'a> = Cow<'a, str>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Cow<'a, str>> {
        asap_verify::answer(row.text(0)?).ok_or(NoValue::Null)
    }
}
