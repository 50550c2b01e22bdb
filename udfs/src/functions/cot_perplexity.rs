use asap_lm::{Scores, Wanted};

use super::by_score::{QUESTION_AND_STEPS, StepScore};
use crate::declaration::Declaration;

pub(crate) struct CotPerplexity;

impl StepScore for CotPerplexity {
    const DECLARATION: Declaration = Declaration {
        name: "cot_perplexity",
        about: "The perplexity of each step by the scoring model (`asap.scorer.model`). It is exp of the mean −ln P over the step's own tokens, from its first token to the last one that begins before its end. NULL if one of them has no score. It needs a separate forward pass, which also gives the row's surprisal and entropy. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_perplexity('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    };
    const WANTED: Wanted = Wanted::AllTokens;

    fn pick(scores: &Scores) -> Vec<Option<f32>> {
        scores.perplexity.clone()
    }
}
