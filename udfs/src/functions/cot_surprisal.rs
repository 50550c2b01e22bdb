use asap_lm::{Scores, Wanted};

use super::by_score::{QUESTION_AND_STEPS, StepScore};
use crate::declaration::Declaration;

pub(crate) struct CotSurprisal;

impl StepScore for CotSurprisal {
    const DECLARATION: Declaration = Declaration {
        name: "cot_surprisal",
        about: "The first-token surprisal of each step, in nats: −ln P(first token | question, earlier steps) by the scoring model (`asap.scorer.model`). One forward pass scores all steps. The first token is the one that covers the step's first character. NULL if nothing precedes it or the step has no token. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_surprisal('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    };
    const WANTED: Wanted = Wanted::FirstTokens;

    fn pick(scores: &Scores) -> Vec<Option<f32>> {
        scores.first.iter().map(|token| token.map(|token| token.surprisal)).collect()
    }
}
