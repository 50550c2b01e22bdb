use std::sync::Arc;

use asap_kernels::budget;
use asap_lm::{Joined, Tokenizer};

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Numbers;

pub(crate) struct CotRandom;

impl RowFunction for CotRandom {
    const DECLARATION: Declaration = Declaration {
        name: "cot_random",
        about: "A random subset of steps (from 1, ascending), the baseline that a score must beat: steps are removed in a random order until the rest, joined by a blank line, has at most `ratio` of the tokens of all steps joined, rounded down. It depends on `seed` and the steps alone, and a smaller ratio gives a subset of a larger one's. `budget / tokens` as a ratio is never rounded below `budget`.",
        arguments: &[
            Argument::new("steps", Arg::TextList, "The steps of a chain of thought; a NULL step is an empty one."),
            Argument::new(
                "ratio",
                Arg::Ratio,
                "The part of the tokens that may stay, from 0 to 1; a row where it is not gives NULL.",
            ),
            Argument::new("seed", Arg::Int, "A whole number; another seed draws another subset."),
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
