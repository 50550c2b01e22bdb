use asap_kernels::steps::steps;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotSteps;

impl RowFunction for CotSteps {
    const DECLARATION: Declaration = Declaration {
        name: "cot_steps",
        about: "The steps of a chain of thought, split at blank lines. The separator is `(\\r?\\n){2,}`, so a line that contains spaces does not separate steps. A step loses the blank lines around it and the white space at its end, but keeps the indentation of its first line. Empty steps are dropped.",
        arguments: &[Argument::new("cot", Arg::Text, "A chain of thought.")],
        example: "select cot_steps(E'2 + 2?\\n\\nIt is 4.');\n-- [2 + 2?, It is 4.]",
    };
    type Needs = ();
    type Output<'a> = Vec<Option<&'a str>>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Vec<Option<&'a str>>> {
        Ok(steps(row.text(0)?).into_iter().map(Some).collect())
    }
}
