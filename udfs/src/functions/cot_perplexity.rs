use asap_lm::Wanted;

use super::by_score::{QUESTION_AND_STEPS, StepScore, chain_reading};
use crate::declaration::Declaration;

pub(super) const COT_PERPLEXITY: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_perplexity",
        about: "The perplexity of each step by the scoring model (`asap.scorer.model`). The perplexity is exp of the mean −ln P over the step's own tokens, from the first token of the step to the last token that begins before the end of the step. A step gets NULL if one of these tokens has no score. The function needs a separate forward pass, which also gives the row's surprisal and entropy. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_perplexity('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::AllTokens,
    readings: chain_reading,
    pick: |scores| scores.perplexity.clone(),
};
