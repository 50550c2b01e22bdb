use asap_lm::{Reading, Wanted};

use super::by_score::StepScore;
use crate::declaration::{Arg, Argument, Declaration};

pub(super) const COT_SELF_INFORMATION: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_self_information",
        about: "The self-information of each step, in nats per token: the mean −ln P of its tokens by the scoring model (`asap.scorer.model`). Selective Context (Li et al. 2023) prunes by this score. The model reads each step separately, after the token that begins a text (the tokenizer's BOS, else `<|endoftext|>`). So neither the question nor other steps influence the score. A step without a token gets NULL. A step longer than the model's window makes the row NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: &[Argument::new(
            "steps",
            Arg::TextList,
            "The steps of a chain of thought. A NULL step is an empty step.",
        )],
        example: "select cot_self_information(['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::AllTokens,
    readings: |row| Ok(row.texts(0)?.into_iter().map(Reading::Alone).collect()),
    pick: |scores| scores.perplexity.iter().map(|perplexity| perplexity.map(f32::ln)).collect(),
};
