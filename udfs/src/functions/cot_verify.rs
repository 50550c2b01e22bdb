use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotVerify;

impl RowFunction for CotVerify {
    const DECLARATION: Declaration = Declaration {
        name: "cot_verify",
        about: "Whether the answer that a response states (`cot_answer`) equals the expected answer. Numbers are compared exactly or to 120 digits, expressions by their values at random points, lists and sets in any order, tuples in order, intervals as inequalities, matrices entry by entry, and equations up to a factor. `x = 5` is 5. A unit may be omitted, and so may the `%` of a number of at least 10. Some answers are equal only if their texts are identical: those that can be read in two ways, that are not a product though they look like one (`P(2)`, `\\frac{dy}{dx}`), that are not understood, or that cost too much to compare. A right answer may therefore be rejected, and a rounded one is rejected. A response without an answer gives false.",
        arguments: &[
            Argument::new("gold", Arg::Text, "The expected answer, or a solution that states it as a response does."),
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
