use asap_lm::Wanted;

use super::by_score::{QUESTION_AND_STEPS, StepScore, chain_reading};
use crate::declaration::Declaration;

pub(super) const COT_STEP_ENTROPY: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_step_entropy",
        about: "The total entropy of the tokens of each step, in nats, by the scoring model (`asap.scorer.model`). The entropy of a token is the entropy of the distribution that the model predicts for this token. In the first version of their paper, Li et al. (2025) prune the steps with the lowest totals first. The second version divides the totals by the number of tokens (`cot_mean_step_entropy`). A step gets NULL if one of its tokens has no token before it. The function uses the forward pass of `cot_perplexity`. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_step_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::AllTokens,
    readings: chain_reading,
    pick: |scores| scores.entropy.clone(),
};
