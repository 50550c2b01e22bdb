use asap_lm::Wanted;

use super::by_score::{QUESTION_AND_STEPS, StepScore, chain_reading};
use crate::declaration::Declaration;

pub(super) const COT_SURPRISAL: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_surprisal",
        about: "The first-token surprisal of each step, in nats: −ln P(first token | question, earlier steps) by the scoring model (`asap.scorer.model`). One forward pass scores all steps. The first token is the token that covers the first character of the step. A step gets NULL if no token precedes it, or if it has no token. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_surprisal('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::FirstTokens,
    readings: chain_reading,
    pick: |scores| scores.first.iter().map(|token| token.map(|token| token.surprisal)).collect(),
};
