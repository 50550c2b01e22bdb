use asap_lm::{Scores, Wanted};

use super::by_score::{QUESTION_AND_STEPS, StepScore};
use crate::declaration::Declaration;

pub(crate) struct CotEntropy;

impl StepScore for CotEntropy {
    const DECLARATION: Declaration = Declaration {
        name: "cot_entropy",
        about: "The entropy of the distribution that the first token of each step is drawn from, in nats, by the scoring model (`asap.scorer.model`). It is computed together with `cot_surprisal`. NULL if nothing precedes the step or the step has no token. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    };
    const WANTED: Wanted = Wanted::FirstTokens;

    fn pick(scores: &Scores) -> Vec<Option<f32>> {
        scores.first.iter().map(|token| token.map(|token| token.entropy)).collect()
    }
}
