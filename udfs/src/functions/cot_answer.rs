use std::borrow::Cow;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotAnswer;

impl RowFunction for CotAnswer {
    const DECLARATION: Declaration = Declaration {
        name: "cot_answer",
        about: "The final answer that a response states after its chain of thought. The final answer is the content of the last `\\boxed`. Neighboring boxes with \"and\", \"or\" or a comma between them form a list. Without a box, the final answer is the text after the last \"answer is\" or \"answer:\", or else after the last `####`. The result is NULL if the response has none of these, or if its chain is cut off (an opening tag without its closing tag). Only the last 65,536 bytes of the response are searched.",
        arguments: &[Argument::new(
            "response",
            Arg::Text,
            "The text that a model wrote, with or without its chain of thought.",
        )],
        example: "select cot_answer('<think>Maybe \\boxed{5}?</think>It is \\boxed{4}.');\n-- 4",
    };
    type Needs = ();
    type Output<'a> = Cow<'a, str>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Cow<'a, str>> {
        asap_verify::answer(row.text(0)?).ok_or(NoValue::Null)
    }
}
