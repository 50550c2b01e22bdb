use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotVerify;

impl RowFunction for CotVerify {
    const DECLARATION: Declaration = Declaration {
        name: "cot_verify",
        about: "Whether the answer that a response states (`cot_answer`) is the expected one. Numbers are compared exactly or to 120 digits, expressions at drawn points, lists and sets in any order, tuples in theirs, intervals as inequalities, matrices entry by entry, equations up to a factor; `x = 5` is 5, a unit may be left out, and `%` of a number from 10. What may be read in two ways, is no product though it looks like one (`P(2)`, `\\frac{dy}{dx}`), is not understood or costs too much is equal only where it is written alike, so a right answer may be refused; a rounded one is. A response without an answer is false.",
        arguments: &[
            Argument::new(
                "gold",
                Arg::Text,
                "The answer that is expected, or a solution that states it as responses do.",
            ),
            Argument::new("response", Arg::Text, "What a model wrote, with its chain of thought or without."),
        ],
        example: "select cot_verify('0.5', '<think>Half of it.</think>It is \\boxed{\\frac{1}{2}}.');\n-- true",
    };
    type Needs = ();
    type Output<'a> = bool;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<bool> {
        Ok(asap_verify::verify(row.text(0)?, row.text(1)?))
    }
}
