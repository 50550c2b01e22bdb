use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotVerify;

impl RowFunction for CotVerify {
    const DECLARATION: Declaration = Declaration {
        name: "cot_verify",
        about: "Whether the answer that `response` states (`cot_answer`) equals the expected answer `gold`. asap compares rational numbers exactly, other numbers to 120 digits, and expressions by their values at random points. Lists and sets may be in any order, and tuples must be in the same order. Intervals are compared as the inequalities that they stand for, matrices entry by entry, and equations up to a factor. `x = 5` equals `5`. A unit may be omitted. The `%` of a number of at least 10 may be omitted too. Four kinds of answers are equal only if their texts are identical: answers with two readings, answers whose letters look multiplied but are not (`P(2)`, `\\frac{dy}{dx}`), answers that `cot_verify` cannot parse, and answers that cost too much to compare. So `cot_verify` may reject a right answer. A rounded answer is always rejected. A response without an answer gives false.",
        arguments: &[
            Argument::new(
                "gold",
                Arg::Text,
                "The expected answer, or a solution that states it in a form that `cot_answer` finds, such as `\\boxed{4}`.",
            ),
            Argument::new("response", Arg::Text, "The text that a model wrote, with or without its chain of thought."),
        ],
        example: "select cot_verify('0.5', '<think>Half of it.</think>It is \\boxed{\\frac{1}{2}}.');\n-- true",
    };
    type Needs = ();
    type Output<'a> = bool;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<bool> {
        Ok(asap_verify::verify(row.text(0)?, row.text(1)?))
    }
}
