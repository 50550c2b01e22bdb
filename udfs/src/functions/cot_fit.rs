use std::sync::Arc;

use asap_kernels::budget;
use asap_lm::{Joined, Tokenizer};

use super::by_row::RowFunction;
use super::cot_refine::{STEPS_SCORES_AND_BUDGET, ToPrune};
use super::needs::Budget;
use crate::columns::{Args, Cell};
use crate::declaration::Declaration;
use crate::output::Numbers;

pub struct CotFit;

impl RowFunction for CotFit {
    const DECLARATION: Declaration = Declaration {
        name: "cot_fit",
        about: "Algorithm 2 with two mends: which steps (from 1, ascending) are left when, as in `cot_refine`, the step of the lowest score is removed until the rest has at most `max_tokens` tokens, but steps that alone have more than that go first, so that they do not take all others with them, and the last step, which states the result, goes last. Lists of different lengths give NULL.",
        arguments: STEPS_SCORES_AND_BUDGET,
        example: "select cot_fit(['Hm.', '2 + 2 is 4.', 'Done.'], [0.1, 3.2, 0.0], 12);\n-- [2, 3]",
    };
    type Needs = (Arc<Tokenizer>, Budget);
    type Output<'a> = Numbers;

    fn row<'a>((tokenizer, default): &mut Self::Needs, row: Args<'a>) -> Cell<Numbers> {
        let ToPrune { steps, scores, max_tokens: Some(max_tokens) } = ToPrune::read(row, default)? else {
            return Ok(Numbers(vec![]));
        };
        let joined = Joined::new(tokenizer, &steps)?;
        if joined.tokens() <= max_tokens {
            return Ok(Numbers(joined.kept()));
        }
        let lengths = (0..steps.len()).map(|step| joined.tokens_alone(step)).collect::<asap_lm::Result<Vec<_>>>()?;
        let (mut order, last) = (budget::by_score(&scores), steps.len() - 1);
        // The sort is stable: within each third the order is that of the scores.
        order.sort_by_key(|step| match lengths[*step] > max_tokens {
            true => 0,
            false if *step < last => 1,
            false => 2,
        });
        Ok(Numbers(joined.prune(order, max_tokens)?))
    }
}
