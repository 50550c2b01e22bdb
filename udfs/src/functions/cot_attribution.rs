use asap_lm::{Left, Wanted};

use super::by_score::{QUESTION_STEPS_AND_ANSWER, StepScore, answer_reading};
use crate::declaration::Declaration;

pub(super) const COT_ATTRIBUTION: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_attribution",
        about: "For each step, how much the mean −ln P of the answer's tokens rises if this step is left out, in nats per token; above 0 if the step helps. This is the score of PIR (Xiao et al. 2025): the logarithm of a ratio of perplexities. By this score, PIR drops only functional steps (verification, other methods, error correction): see `cot_drop_functional`. The scoring model (`asap.scorer.model`) reads the question, the steps, `</think>` and the answer: once with all steps, and once without each step. The model reads the shared beginning of these texts only once, so each step costs about half of the chain's tokens. An empty answer gives NULL. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_STEPS_AND_ANSWER,
        example: "select cot_attribution('2 + 2?', ['2 + 2 is 4.', 'Done.'], '4');",
    },
    wanted: Wanted::AllTokens,
    readings: |row| answer_reading(row, Left::AllButOne),
    pick: |scores| {
        let Some((whole, without)) = scores.answers.split_first() else { return vec![] };
        without.iter().map(|nats| Some((nats - whole) as f32)).collect()
    },
};
