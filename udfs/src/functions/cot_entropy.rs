use asap_lm::{Scores, Wanted};

use super::by_score::{QUESTION_AND_STEPS, StepScore};
use crate::declaration::Declaration;

pub(crate) struct CotEntropy;

impl StepScore for CotEntropy {
    const DECLARATION: Declaration = Declaration {
        name: "cot_entropy",
        about: "Entropy in nats of the distribution that the first token of each step was drawn from, by the scoring model (`asap.scorer.model`); computed together with `cot_surprisal`. NULL where nothing precedes the step or it has no token. A chain longer than the window of the model gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    };
    const WANTED: Wanted = Wanted::FirstTokens;

    fn pick(scores: &Scores) -> Vec<Option<f32>> {
        scores.first.iter().map(|token| token.map(|token| token.entropy)).collect()
    }
}
