use std::borrow::Cow;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotUnstated;

impl RowFunction for CotUnstated {
    const DECLARATION: Declaration = Declaration {
        name: "cot_unstated",
        about: "The steps without the sentences that state the answer, by the rules of `cot_earliest_correct`. A model can copy an answer that the chain states. To see whether the other sentences lead to the answer, apply `cot_survives` to the result of this function. Every step keeps its number: a step without remaining sentences becomes an empty text. A sentence ends with its line, or at `.`, `?` or `!` before a space. Steps that do not state the answer stay unchanged.",
        arguments: &[
            Argument::new("steps", Arg::TextList, "The steps of a chain of thought. A NULL step is an empty step."),
            Argument::new("answer", Arg::Text, "The answer, or a response that states it as `cot_answer` finds it."),
        ],
        example: "select cot_unstated(['Let me add. 2 + 2 = 4.', 'Sure?', 'It is 4.'], 'It is \\boxed{4}.');\n-- [Let me add., Sure?, ]",
    };
    type Needs = ();
    type Output<'a> = Vec<Cow<'a, str>>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Vec<Cow<'a, str>>> {
        Ok(asap_verify::unstated(row.text(1)?, &row.texts(0)?))
    }
}
