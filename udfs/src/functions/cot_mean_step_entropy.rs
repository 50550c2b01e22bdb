use asap_lm::Wanted;

use super::by_score::{QUESTION_AND_STEPS, StepScore, chain_reading};
use crate::declaration::Declaration;

pub(super) const COT_MEAN_STEP_ENTROPY: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_mean_step_entropy",
        about: "The mean entropy of the tokens of each step, in nats: `cot_step_entropy` divided by the number of the step's tokens. The blank line before a step does not count. In the first version of the paper of Li et al. (2025), step entropy is a sum, which favors long steps. In the second version, step entropy is this mean. A step gets NULL if one of its tokens has no token before it. The function uses the forward pass of `cot_perplexity`. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_mean_step_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::AllTokens,
    readings: chain_reading,
    pick: |scores| scores.mean_entropy.clone(),
};
