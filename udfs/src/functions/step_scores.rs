//! The functions that score the steps of a chain by the scoring model.

use asap_lm::{Left, Reading, Wanted};

use super::by_score::{QUESTION_AND_STEPS, QUESTION_STEPS_AND_ANSWER, StepScore, answer_reading, chain_reading};
use crate::declaration::{Arg, Argument, Declaration};

pub(crate) const ALL: [StepScore; 7] = [
    COT_ANSWER_GAIN,
    COT_ATTRIBUTION,
    COT_ENTROPY,
    COT_PERPLEXITY,
    COT_SELF_INFORMATION,
    COT_STEP_ENTROPY,
    COT_SURPRISAL,
];

const COT_ANSWER_GAIN: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_answer_gain",
        about: "How much each step lowers the mean −ln P of the answer's tokens, in nats per token. The scoring model (`asap.scorer.model`) reads the question, the steps so far, `</think>` and the answer, without the step and with it. The gains of a chain add up to the gain of the whole chain. Common beginnings of these texts are read once, so a step costs the tokens of the answer and few more. An empty answer gives NULL. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
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

const COT_ATTRIBUTION: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_attribution",
        about: "How much the mean −ln P of the answer's tokens rises without each step, in nats per token; above 0 if the step helps. This is PIR, the logarithm of the ratio of perplexities (Xiao et al. 2025). The scoring model (`asap.scorer.model`) reads the question, the other steps, `</think>` and the answer, and compares with all steps. Common beginnings of these texts are read once, so each step costs about half of the tokens of a forward pass. An empty answer gives NULL. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
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

const COT_ENTROPY: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_entropy",
        about: "The entropy of the distribution that the first token of each step is drawn from, in nats, by the scoring model (`asap.scorer.model`). It is computed together with `cot_surprisal`. NULL if nothing precedes the step or the step has no token. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::FirstTokens,
    readings: chain_reading,
    pick: |scores| scores.first.iter().map(|token| token.map(|token| token.entropy)).collect(),
};

const COT_PERPLEXITY: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_perplexity",
        about: "The perplexity of each step by the scoring model (`asap.scorer.model`). It is exp of the mean −ln P over the step's own tokens, from its first token to the last one that begins before its end. NULL if one of them has no score. It needs a separate forward pass, which also gives the row's surprisal and entropy. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_perplexity('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::AllTokens,
    readings: chain_reading,
    pick: |scores| scores.perplexity.clone(),
};

const COT_SELF_INFORMATION: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_self_information",
        about: "The self-information of each step, in nats per token: the mean −ln P of its tokens by the scoring model (`asap.scorer.model`). This is Selective Context (Li et al. 2023). Each step is read alone after the token that begins a text (the tokenizer's BOS, else `<|endoftext|>`), so neither the question nor other steps count. NULL if the step has no token. A step longer than the model's window makes the row NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: &[Argument::new(
            "steps",
            Arg::TextList,
            "The steps of a chain of thought; a NULL step is an empty one.",
        )],
        example: "select cot_self_information(['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::AllTokens,
    readings: |row| Ok(row.texts(0)?.into_iter().map(Reading::Alone).collect()),
    pick: |scores| scores.perplexity.iter().map(|perplexity| perplexity.map(f32::ln)).collect(),
};

const COT_STEP_ENTROPY: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_step_entropy",
        about: "The entropy of each step, in nats: the sum of the entropies of the distributions that the scoring model (`asap.scorer.model`) draws the step's own tokens from. Li et al. (2025) prune the steps with the lowest values first. NULL if nothing precedes one of these tokens. It uses the forward pass of `cot_perplexity`. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_step_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::AllTokens,
    readings: chain_reading,
    pick: |scores| scores.entropy.clone(),
};

const COT_SURPRISAL: StepScore = StepScore {
    declaration: Declaration {
        name: "cot_surprisal",
        about: "The first-token surprisal of each step, in nats: −ln P(first token | question, earlier steps) by the scoring model (`asap.scorer.model`). One forward pass scores all steps. The first token is the one that covers the step's first character. NULL if nothing precedes it or the step has no token. A chain longer than the model's window gives NULL, or fails the query if `asap.on_error` is `fail`.",
        arguments: QUESTION_AND_STEPS,
        example: "select cot_surprisal('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    },
    wanted: Wanted::FirstTokens,
    readings: chain_reading,
    pick: |scores| scores.first.iter().map(|token| token.map(|token| token.surprisal)).collect(),
};
