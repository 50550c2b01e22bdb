use asap_lm::{Reading, Scores, Wanted};

use super::by_score::StepScore;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotSelfInformation;

impl StepScore for CotSelfInformation {
    const DECLARATION: Declaration = Declaration {
        name: "cot_self_information",
        about: "The self-information of each step, in nats per token: the mean −ln P of its tokens by the scoring model (`asap.scorer.model`). This is Selective Context (Li et al. 2023). Each step is read alone after the token that begins a text (the tokenizer's BOS, else `<|endoftext|>`), so neither the question nor other steps count. NULL if the step has no token. A step longer than the model's window makes the row NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: &[Argument::new(
            "steps",
            Arg::TextList,
            "The steps of a chain of thought; a NULL step is an empty one.",
        )],
        example: "select cot_self_information(['2 + 2 is 4.', 'Done.']);",
    };
    const WANTED: Wanted = Wanted::AllTokens;

    fn readings(row: Args) -> Cell<Vec<Reading>> {
        Ok(row.texts(0)?.into_iter().map(Reading::Alone).collect())
    }

    fn pick(scores: &Scores) -> Vec<Option<f32>> {
        scores.perplexity.iter().map(|perplexity| perplexity.map(f32::ln)).collect()
    }
}
