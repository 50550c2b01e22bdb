use asap_lm::Wanted;

use super::by_score::{QUESTION_AND_STEPS, StepScore, chain_reading};
use crate::declaration::Declaration;

pub(super) const COT_PERPLEXITY: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_perplexity",
        about: "The perplexity of each step by the scoring model (`asap.scorer.model`). It is exp of the mean −ln P over the step's own tokens, from its first token to the last one that begins before its end. A step is NULL if one of these tokens has no score. It needs a separate forward pass, which also gives the row's surprisal and entropy. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_perplexity('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::AllTokens,
    readings: chain_reading,
    pick: |scores| scores.perplexity.clone(),
};
