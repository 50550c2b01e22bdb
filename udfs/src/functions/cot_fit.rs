use std::sync::Arc;

use asap_kernels::budget;
use asap_lm::{Joined, Tokenizer};

use super::by_row::RowFunction;
use super::cot_refine::{STEPS_SCORES_AND_BUDGET, pruned};
use super::needs::Budget;
use crate::columns::{Args, Cell};
use crate::declaration::Declaration;
use crate::output::Numbers;

pub(crate) struct CotFit;

impl RowFunction for CotFit {
    const DECLARATION: Declaration = Declaration {
        name: "cot_fit",
        about: "The numbers (from 1, ascending) of the steps that remain after removing every step of more than `max_tokens` tokens, and then the steps with the lowest scores, one by one, until the remaining steps have at most `max_tokens` tokens. In contrast, `cot_refine` removes a step that is longer than the budget only after all steps with lower scores. Lists of different lengths give NULL.",
        arguments: STEPS_SCORES_AND_BUDGET,
        example: "select cot_fit(['Hm.', 'So 2 + 2 + 2 is 6.', 'Done.'], [0.1, 3.2, 1.4], 7);\n-- [1, 3]",
    };
    type Needs = (Arc<Tokenizer>, Budget);
    type Output<'a> = Numbers;

    fn row<'a>((tokenizer, default): &mut Self::Needs, row: Args<'a>) -> Cell<Numbers> {
        pruned(row, default, |steps, scores, max_tokens| {
            fit(tokenizer, steps, max_tokens, budget::by_score(scores), |_, is_too_long| u8::from(!is_too_long))
        })
    }
}

/// Returns the places of the steps that remain. Steps are removed by rank, and within a rank in this order, until the
/// rest fits. The rank depends on a step's place and on whether it can never fit.
pub(super) fn fit(
    tokenizer: &Tokenizer,
    steps: &[&str],
    max_tokens: usize,
    mut order: Vec<usize>,
    rank: impl Fn(usize, bool) -> u8,
) -> asap_lm::Result<Vec<usize>> {
    let joined = Joined::new(tokenizer, steps)?;
    if joined.tokens() <= max_tokens {
        return Ok(joined.kept());
    }
    let lengths = (0..steps.len()).map(|step| joined.tokens_alone(step)).collect::<asap_lm::Result<Vec<_>>>()?;
    // The sort is stable.
    order.sort_by_key(|step| rank(*step, lengths[*step] > max_tokens));
    joined.prune(order, max_tokens)
}
