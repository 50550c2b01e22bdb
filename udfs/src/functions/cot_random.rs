use std::sync::Arc;

use asap_kernels::budget;
use asap_lm::{Joined, Tokenizer};

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Numbers;

pub(super) const STEPS: Argument =
    Argument::new("steps", Arg::TextList, "The steps of a chain of thought. A NULL step is an empty step.");
pub(super) const RATIO: Argument = Argument::new(
    "ratio",
    Arg::Ratio,
    "The share of the tokens that may remain, from 0 to 1. Another value gives NULL.",
);

pub(crate) struct CotRandom;

impl RowFunction for CotRandom {
    const DECLARATION: Declaration = Declaration {
        name: "cot_random",
        about: "The numbers (from 1, ascending) of a random subset of steps with at most `ratio` of the tokens. The subset is a baseline that a score must beat. asap removes steps in a random order until the remaining steps, joined by a blank line, have at most `ratio` of the tokens of all steps joined, rounded down. The order depends only on `seed` and the steps, so a smaller ratio gives a subset of the result of a larger ratio. For a budget in tokens, pass `CAST(budget AS DOUBLE) / tokens` as the ratio. The limit is then exactly `budget` tokens.",
        arguments: &[
            STEPS,
            RATIO,
            Argument::new("seed", Arg::Int, "A whole number. Another seed gives another subset."),
        ],
        example: "select cot_random(['Hm.', '2 + 2 is 4.', 'Done.'], 0.7, 7);\n-- [2]",
    };
    type Needs = Arc<Tokenizer>;
    type Output<'a> = Numbers;

    fn row<'a>(tokenizer: &mut Arc<Tokenizer>, row: Args<'a>) -> Cell<Numbers> {
        let (steps, ratio, seed) = (row.texts(0)?, row.ratio(1)?, row.int(2)?);
        let joined = Joined::new(tokenizer, &steps)?;
        let max_tokens = budget::share(ratio, joined.tokens());
        Ok(Numbers(joined.prune(budget::at_random(&steps, seed), max_tokens)?))
    }
}
