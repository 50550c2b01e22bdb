use asap_lm::{Left, Reading, Scores, Wanted};

use super::by_score::{QUESTION_STEPS_AND_ANSWER, StepScore, answer_reading};
use crate::columns::{Args, Cell};
use crate::declaration::Declaration;

pub(crate) struct CotAnswerGain;

impl StepScore for CotAnswerGain {
    const DECLARATION: Declaration = Declaration {
        name: "cot_answer_gain",
        about: "How much each step lowers the mean −ln P of the answer's tokens, in nats per token. The scoring model (`asap.scorer.model`) reads the question, the steps so far, `</think>` and the answer, without the step and with it. The gains of a chain add up to the gain of the whole chain. Common beginnings of these texts are read once, so a step costs the tokens of the answer and few more. An empty answer gives NULL. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_STEPS_AND_ANSWER,
        example: "select cot_answer_gain('2 + 2?', ['2 + 2 is 4.', 'Done.'], '4');",
    };
    const WANTED: Wanted = Wanted::AllTokens;

    fn readings(row: Args) -> Cell<Vec<Reading>> {
        answer_reading(row, Left::First)
    }

    fn pick(scores: &Scores) -> Vec<Option<f32>> {
        let Some((whole, after)) = scores.answers.split_first() else { return vec![] };
        let next = after.iter().skip(1).chain([whole]);
        after.iter().zip(next).map(|(before, behind)| Some((before - behind) as f32)).collect()
    }
}
