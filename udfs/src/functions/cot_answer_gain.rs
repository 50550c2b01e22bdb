use asap_lm::{Left, Wanted};

use super::by_score::{QUESTION_STEPS_AND_ANSWER, StepScore, answer_reading};
use crate::declaration::Declaration;

pub(super) const COT_ANSWER_GAIN: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_answer_gain",
        about: "How much each step lowers the mean −ln P of the answer's tokens, in nats per token. For each step, the scoring model (`asap.scorer.model`) reads the question, the steps up to this step, `</think>` and the answer: once without the step, and once with it. The gains of all steps add up to the gain of the whole chain. The model reads the shared beginning of these texts only once. So it reads the chain once, and the answer once more for each step. An empty answer gives NULL. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_STEPS_AND_ANSWER,
        example: "select cot_answer_gain('2 + 2?', ['2 + 2 is 4.', 'Done.'], '4');",
    },
    wanted: Wanted::AllTokens,
    readings: |row| answer_reading(row, Left::First),
    pick: |scores| {
        let Some((whole, after)) = scores.answers.split_first() else { return vec![] };
        let next = after.iter().skip(1).chain([whole]);
        after.iter().zip(next).map(|(without, with)| Some((without - with) as f32)).collect()
    },
};
