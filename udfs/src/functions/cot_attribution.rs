use asap_lm::{Left, Reading, Scores, Wanted};

use super::by_score::{QUESTION_STEPS_AND_ANSWER, StepScore, answer_reading};
use crate::columns::{Args, Cell};
use crate::declaration::Declaration;

pub(crate) struct CotAttribution;

impl StepScore for CotAttribution {
    const DECLARATION: Declaration = Declaration {
        name: "cot_attribution",
        about: "What the answer loses without each step, in nats a token (PIR, Xiao and others 2025: the logarithm of the ratio of perplexities): the mean −ln P of its tokens by the scoring model (`asap.scorer.model`) behind question, the other steps and `</think>`, less that behind all steps; above 0 where the step helps. What texts begin with is read once, so that it takes about half of the tokens of a pass for each step. An empty answer gives NULL. A chain longer than the window of the model gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_STEPS_AND_ANSWER,
        example: "select cot_attribution('2 + 2?', ['2 + 2 is 4.', 'Done.'], '4');",
    };
    const WANTED: Wanted = Wanted::AllTokens;

    fn readings(row: Args) -> Cell<Vec<Reading>> {
        answer_reading(row, Left::AllButOne)
    }

    fn pick(scores: &Scores) -> Vec<Option<f32>> {
        let Some((whole, without)) = scores.answers.split_first() else { return vec![] };
        without.iter().map(|nats| Some((nats - whole) as f32)).collect()
    }
}
