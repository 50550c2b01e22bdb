use asap_kernels::budget;

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotRank;

impl RowFunction for CotRank {
    const DECLARATION: Declaration = Declaration {
        name: "cot_rank",
        about: "For each score, the share of the chain's other scores that are lower, from 0 to 1; an equal score counts half. Ranks make scores of different units comparable: `array_add(cot_rank(a), cot_rank(b))` gives both scores the same weight. A NULL or NaN score counts as 0, as in `cot_refine`. If a chain has only one score, its rank is 0.5.",
        arguments: &[Argument::new("scores", Arg::FloatList, "A number for each step of a chain.")],
        example: "select cot_rank([0.1, 3.2, 1.4, 1.4]);\n-- [0.0, 1.0, 0.5, 0.5]",
    };
    type Needs = ();
    type Output<'a> = Vec<f64>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Vec<f64>> {
        Ok(budget::ranks(&row.floats(0)?))
    }
}
