use asap_lm::Wanted;

use super::by_score::{QUESTION_AND_STEPS, StepScore, chain_reading};
use crate::declaration::Declaration;

pub(super) const COT_ENTROPY: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_entropy",
        about: "The entropy, in nats, of the distribution that the scoring model (`asap.scorer.model`) predicts for the first token of each step. The forward pass of `cot_surprisal` also gives this entropy. A step gets NULL if no token precedes it, or if it has no token. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::FirstTokens,
    readings: chain_reading,
    pick: |scores| scores.first.iter().map(|token| token.map(|token| token.entropy)).collect(),
};
