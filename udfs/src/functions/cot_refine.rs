use std::sync::Arc;

use asap_kernels::budget;
use asap_lm::{Joined, Tokenizer};

use super::by_row::RowFunction;
use super::needs::Budget;
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Arg, Argument, Declaration};
use crate::output::Numbers;

pub(crate) const MAX_TOKENS: Argument = Argument::optional(
    "max_tokens",
    Arg::Int,
    "The maximum number of tokens of the remaining steps. The default is the setting `asap.refine.max_tokens`.",
);

pub(super) const STEPS_SCORES_AND_BUDGET: &[Argument] = &[
    Argument::new("steps", Arg::TextList, "The steps of a chain of thought. A NULL step is an empty step."),
    Argument::new(
        "scores",
        Arg::FloatList,
        "A number for each step. The step with the lowest number is removed first.",
    ),
    MAX_TOKENS,
];

/// Returns the steps that `prune` keeps, by their scores and the maximum number of tokens; none if that is negative.
pub(super) fn pruned<'a>(
    row: Args<'a>,
    default: &Budget,
    prune: impl FnOnce(&[&'a str], &[Option<f64>], usize) -> asap_lm::Result<Vec<usize>>,
) -> Cell<Numbers> {
    let (steps, scores) = (row.texts(0)?, row.floats(1)?);
    let max_tokens = if row.is_given(2) { row.int(2)? } else { default.max_tokens };
    match (steps.len() == scores.len(), usize::try_from(max_tokens)) {
        (false, _) => Err(NoValue::Null),
        (true, Err(_)) => Ok(Numbers(vec![])),
        (true, Ok(max_tokens)) => Ok(Numbers(prune(&steps, &scores, max_tokens)?)),
    }
}

pub(crate) struct CotRefine;

impl RowFunction for CotRefine {
    const DECLARATION: Declaration = Declaration {
        name: "cot_refine",
        about: "The numbers (from 1, ascending) of the steps that remain after Algorithm 2 of the ASAP paper. The algorithm removes the step with the lowest score, one by one, until the remaining steps, joined by a blank line, have at most `max_tokens` tokens of the scoring model. If scores are equal, the algorithm removes the earlier step first. A NULL or NaN score counts as 0. A chain that fits keeps all steps. If no step fits, the result is empty. Lists of different lengths give NULL.",
        arguments: STEPS_SCORES_AND_BUDGET,
        example: "select cot_refine(['Hm.', '2 + 2 is 4.', 'Done.'], [0.1, 3.2, 1.4], 12);\n-- [2, 3]",
    };
    type Needs = (Arc<Tokenizer>, Budget);
    type Output<'a> = Numbers;

    fn row<'a>((tokenizer, default): &mut Self::Needs, row: Args<'a>) -> Cell<Numbers> {
        pruned(row, default, |steps, scores, max_tokens| {
            Joined::new(tokenizer, steps)?.prune(budget::by_score(scores), max_tokens)
        })
    }
}
