//! Baselines that a score must beat.

use std::sync::Arc;

use asap_kernels::budget;
use asap_kernels::controls::Control;
use asap_lm::{Joined, Tokenizer};
use datafusion::common::exec_datafusion_err;

use super::arguments::STEPS;
use super::by_row::RowFunction;
use crate::declaration::{Argument, argument};
use crate::models::failed;
use crate::output::Numbers;

const RATIO: Argument =
    argument!(ratio: Ratio, "The share of the tokens that may remain, from 0 to 1. Another value gives NULL.");

pub(super) const COT_RANDOM: RowFunction<Arc<Tokenizer>, Numbers> = RowFunction {
    name: "cot_random",
    about: "The numbers (from 1, ascending) of a random subset of steps with at most `ratio` of the tokens. asap removes steps in a random order until the remaining steps, joined by a blank line, have at most `ratio` of the tokens of all steps joined, rounded down. The order depends only on `seed` and the steps, so a smaller ratio gives a subset of the result of a larger ratio. For exactly `budget` tokens, pass `CAST(budget AS DOUBLE) / tokens` as the ratio.",
    arguments: &[STEPS, RATIO, argument!(seed: Int, "A whole number. Another seed gives another subset.")],
    example: "select cot_random(['Hm.', '2 + 2 is 4.', 'Done.'], 0.7, 7);\n-- [2]",
    row: |tokenizer, row| {
        let (steps, ratio, seed) = (row.texts(0)?, row.ratio(1)?, row.int(2)?);
        let joined = Joined::new(tokenizer, &steps)?;
        let max_tokens = budget::share(ratio, joined.tokens());
        Ok(Numbers(joined.prune(budget::at_random(&steps, seed), max_tokens)?))
    },
};

pub(super) const COT_TRUNCATE: RowFunction<Arc<Tokenizer>, Numbers> = RowFunction {
    name: "cot_truncate",
    about: "The numbers (from 1) of the steps of the longest prefix of a chain that has at most the share `ratio` of its tokens. The steps are joined by a blank line, and the limit is rounded down. For exactly `budget` tokens, pass `CAST(budget AS DOUBLE) / tokens` as the ratio.",
    arguments: &[STEPS, RATIO],
    example: "select cot_truncate(['Hm.', '2 + 2 is 4.', 'Done.'], 0.5);\n-- [1]",
    row: |tokenizer, row| {
        let (steps, ratio) = (row.texts(0)?, row.ratio(1)?);
        let joined = Joined::new(tokenizer, &steps)?;
        let max_tokens = budget::share(ratio, joined.tokens());
        Ok(Numbers(joined.prune((0..steps.len()).rev(), max_tokens)?))
    },
};

pub(super) const COT_CONTROL_SCORES: RowFunction<Arc<Tokenizer>, Vec<f64>> = RowFunction {
    name: "cot_control_scores",
    about: "A score for each step by its place, its length or chance: a baseline that other scores must beat. The step with the lowest score is removed first. `prefix` keeps the beginning, `suffix` the end, and `block` a random contiguous block. `longest` removes the step with the most tokens first, and `random` a random step, as `cot_random` does. The scores of `random` and `block` depend on `seed`, and those of `block` also on the lengths of the steps in tokens. An unknown control fails the query.",
    arguments: &[
        STEPS,
        argument!(control: Text, "`block`, `longest`, `prefix`, `random` or `suffix`."),
        argument!(seed: Int, "A whole number. Another seed gives other random scores."),
    ],
    example: "select cot_control_scores(['Hm.', '2 + 2 is 4.', 'Done.'], 'suffix', 7);\n-- [0.0, 1.0, 2.0]",
    row: |tokenizer, row| {
        let (steps, name, seed) = (row.texts(0)?, row.text(1)?, row.int(2)?);
        let Some((_, control)) = Control::ALL.into_iter().find(|(known, _)| *known == name) else {
            let known = Control::ALL.map(|(known, _)| known).join(", ");
            return Err(
                exec_datafusion_err!("control of cot_control_scores must be one of {known}, found {name}").into()
            );
        };
        let lengths = steps.iter().map(|step| tokenizer.count(step)).collect::<asap_lm::Result<Vec<_>>>();
        Ok(control.scores(&steps, &lengths.map_err(failed)?, seed))
    },
};
