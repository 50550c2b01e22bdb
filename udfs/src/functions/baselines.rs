//! Baselines that a score must beat.

use std::sync::Arc;

use asap_kernels::budget;
use asap_lm::{Joined, Tokenizer};

use super::by_row::RowFunction;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Numbers;

const STEPS: Argument =
    Argument::new("steps", Arg::TextList, "The steps of a chain of thought; a NULL step is an empty one.");
const RATIO: Argument = Argument::new(
    "ratio",
    Arg::Ratio,
    "The share of the tokens that may remain, from 0 to 1; a row with another value gives NULL.",
);

pub(crate) struct CotRandom;

impl RowFunction for CotRandom {
    const DECLARATION: Declaration = Declaration {
        name: "cot_random",
        about: "The numbers (from 1, ascending) of a random subset of steps with at most `ratio` of the tokens. It is a baseline that a score must beat. Steps are removed in a random order until the rest, joined by a blank line, has at most `ratio` of the tokens of all steps joined, rounded down. The result depends only on `seed` and the steps. A smaller ratio gives a subset of the result of a larger one. `budget / tokens` as a ratio is never rounded below `budget`.",
        arguments: &[
            STEPS,
            RATIO,
            Argument::new("seed", Arg::Int, "A whole number; another seed gives another subset."),
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

pub(crate) struct CotRandomScores;

impl RowFunction for CotRandomScores {
    const DECLARATION: Declaration = Declaration {
        name: "cot_random_scores",
        about: "A random score for each step, from 0 to below 1, all different. In the order of these scores, `cot_random` removes the same steps. They depend only on `seed` and the steps.",
        arguments: &[STEPS, Argument::new("seed", Arg::Int, "A whole number; another seed gives other scores.")],
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

pub(crate) struct CotTruncate;

impl RowFunction for CotTruncate {
    const DECLARATION: Declaration = Declaration {
        name: "cot_truncate",
        about: "The numbers (from 1) of the longest prefix of a chain with at most `ratio` of the tokens. It is a baseline that a score must beat. The prefix, joined by a blank line, has at most `ratio` of the tokens of all steps joined, rounded down. `budget / tokens` as a ratio is never rounded below `budget`.",
        arguments: &[STEPS, RATIO],
        example: "select cot_truncate(['Hm.', '2 + 2 is 4.', 'Done.'], 0.5);\n-- [1]",
    };
    type Needs = Arc<Tokenizer>;
    type Output<'a> = Numbers;

    fn row<'a>(tokenizer: &mut Arc<Tokenizer>, row: Args<'a>) -> Cell<Numbers> {
        let (steps, ratio) = (row.texts(0)?, row.ratio(1)?);
        let joined = Joined::new(tokenizer, &steps)?;
        let max_tokens = budget::share(ratio, joined.tokens());
        Ok(Numbers(joined.prune((0..steps.len()).rev(), max_tokens)?))
    }
}
