use asap_kernels::budget;

use super::by_row::RowFunction;
use super::cot_random::STEPS;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotRandomScores;

impl RowFunction for CotRandomScores {
    const DECLARATION: Declaration = Declaration {
        name: "cot_random_scores",
        about: "A random score for each step, from 0 to below 1, all different. The scores depend only on `seed` and the steps. `cot_random` with the same `seed` removes the step with the lowest score first.",
        arguments: &[STEPS, Argument::new("seed", Arg::Int, "A whole number. Another seed gives other scores.")],
        example: "select cot_random_scores(['Hm.', '2 + 2 is 4.'], 7);\n-- [0.0, 0.5]",
    };
    type Needs = ();
    type Output<'a> = Vec<f64>;

    fn row<'a>(_: &mut (), row: Args<'a>) -> Cell<Vec<f64>> {
        let (steps, seed) = (row.texts(0)?, row.int(1)?);
        let mut scores = vec![0.0; steps.len()];
        for (place, step) in budget::at_random(&steps, seed).into_iter().enumerate() {
            scores[step] = place as f64 / steps.len() as f64;
        }
        Ok(scores)
    }
}
