use asap_lm::{Scores, Wanted};

use super::by_score::{QUESTION_AND_STEPS, StepScore};
use crate::declaration::Declaration;

pub(crate) struct CotStepEntropy;

impl StepScore for CotStepEntropy {
    const DECLARATION: Declaration = Declaration {
        name: "cot_step_entropy",
        about: "Entropy of each step in nats: the sum of the entropies of the distributions that the scoring model (`asap.scorer.model`) draws the step's own tokens from (Li and others 2025; the least of them are pruned first). NULL if one of them has nothing before it. It takes the pass of `cot_perplexity`. A chain longer than the window of the model gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_step_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    };
    const WANTED: Wanted = Wanted::AllTokens;

    fn pick(scores: &Scores) -> Vec<Option<f32>> {
        scores.entropy.clone()
    }
}
