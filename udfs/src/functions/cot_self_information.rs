use asap_lm::{Reading, Scores, Wanted};

use super::by_score::StepScore;
use crate::columns::{Args, Cell};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) struct CotSelfInformation;

impl StepScore for CotSelfInformation {
    const DECLARATION: Declaration = Declaration {
        name: "cot_self_information",
        about: "Self-information of each step in nats a token (Selective Context, Li and others 2023): the mean −ln P of its tokens by the scoring model (`asap.scorer.model`), the step alone behind the token that begins a text (the tokenizer's BOS, else `<|endoftext|>`), so that neither question nor other steps count. NULL if the step has no token. A step longer than the window of the model makes the row NULL, or fails the query if `asap.on_error` is `fail`.",
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
