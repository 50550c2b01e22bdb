//! Functions that give each step a score by the scoring model.

use std::borrow::Cow;
use std::sync::Arc;

use asap_lm::backend::TokenScore;
use asap_lm::{QuestionAndSteps, Reading, Scorer, Wanted};

use super::arguments::{QUESTION, READ_STEPS, STEPS};
use super::by_row::RowFunction;
use super::by_score::{StepScore, no_scores};
use crate::columns::{Args, Cell, NoValue};
use crate::declaration::{Argument, argument};
use crate::output::Texts;
use crate::settings::{OnError, Settings};

const QUESTION_AND_STEPS: &[Argument] = &[QUESTION, READ_STEPS];

fn chain_reading(row: Args) -> Cell<Vec<Reading>> {
    Ok(vec![Reading::Chain(row.chain(0, 1)?)])
}

pub(super) const COT_SURPRISAL: StepScore = StepScore {
    name: "cot_surprisal",
    about: "The first-token surprisal of each step, in nats: −ln P(first token | question, earlier steps) by the scoring model (`asap.scorer.model`). One forward pass scores all steps. The first token is the token that covers the first character of the step. A step gets NULL if no token precedes it, or if it has no token. Differs from the ASAP paper: the model also reads the system prompt, the question and the think tag, so that the first step has a score.",
    arguments: QUESTION_AND_STEPS,
    example: "select cot_surprisal('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    wanted: Wanted::FirstTokens,
    entropies: false,
    readings: chain_reading,
    pick: |scores| scores.first.iter().map(|token| token.map(|token| token.surprisal)).collect(),
};

pub(super) const COT_ENTROPY: StepScore = StepScore {
    name: "cot_entropy",
    about: "The entropy, in nats, of the distribution that the scoring model (`asap.scorer.model`) predicts for the first token of each step. One forward pass computes this entropy and `cot_surprisal`. As published in the ASAP paper (figure 2).",
    arguments: QUESTION_AND_STEPS,
    example: "select cot_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    wanted: Wanted::FirstTokens,
    entropies: true,
    readings: chain_reading,
    pick: |scores| scores.first.iter().map(|token| token.map(|token| token.entropy)).collect(),
};

pub(super) const COT_TOKEN_ENTROPIES: StepScore<Vec<f32>> = StepScore {
    name: "cot_token_entropies",
    about: "For each step, the entropy of each of its tokens, in nats: of the distribution that the scoring model (`asap.scorer.model`) predicts for this token. The first entropy of a step is `cot_entropy`, and their sum is `cot_step_entropy`. The blank line before a step does not count. One forward pass computes these entropies and `cot_surprisal`. As published in the ASAP paper (figure 2).",
    arguments: QUESTION_AND_STEPS,
    example: "select cot_token_entropies('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    wanted: Wanted::EachToken,
    entropies: true,
    readings: chain_reading,
    pick: |scores| {
        let entropies = |own: &Vec<TokenScore>| own.iter().map(|token| token.entropy).collect();
        scores.tokens.iter().map(|own| own.as_ref().map(entropies)).collect()
    },
};

/// Needs only the tokens of the chain, so the model does not read it.
pub(super) const COT_FIRST_TOKEN: RowFunction<(Arc<Scorer>, Settings), Texts> = RowFunction {
    name: "cot_first_token",
    about: "The text of the first token of each step, with its leading space if it has one. The tokenizer of the scoring model (`asap.scorer.model`) decodes the token. It is the token whose surprisal and entropy are `cot_surprisal` and `cot_entropy`. The token covers the first character of the step, and may also cover text before the step. The model does not read the chain. As published in the ASAP paper (figure 2).",
    arguments: QUESTION_AND_STEPS,
    example: "select cot_first_token('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    row: |(scorer, settings), row| {
        let chain = row.chain(0, 1)?;
        match (scorer.first_tokens(&chain)?, settings.on_error) {
            (Ok(texts), _) => Ok(texts.into_iter().map(|text| text.map(Cow::Owned)).collect()),
            (Err(_), OnError::Reject) => Err(NoValue::Null),
            (Err(none), OnError::Fail) => Err(no_scores("cot_first_token", &none, settings).into()),
        }
    },
};

pub(super) const COT_PERPLEXITY: StepScore = StepScore {
    name: "cot_perplexity",
    about: "The perplexity of each step by the scoring model (`asap.scorer.model`). The perplexity is exp of the mean −ln P over the step's own tokens, from the first token of the step to the last token that begins before the end of the step. A step gets NULL if one of these tokens has no score. One forward pass computes this perplexity, `cot_surprisal` and `cot_entropy`.",
    arguments: QUESTION_AND_STEPS,
    example: "select cot_perplexity('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    wanted: Wanted::AllTokens,
    entropies: false,
    readings: chain_reading,
    pick: |scores| scores.perplexity.clone(),
};

pub(super) const COT_STEP_ENTROPY: StepScore = StepScore {
    name: "cot_step_entropy",
    about: "The total entropy of the tokens of each step, in nats, by the scoring model (`asap.scorer.model`). In the first version of their paper, Li et al. (2025) prune the steps with the lowest totals first. The second version divides the totals by the number of tokens (`cot_mean_step_entropy`). A step gets NULL if one of its tokens has no token before it. One forward pass computes this entropy and `cot_perplexity`. As published (first version).",
    arguments: QUESTION_AND_STEPS,
    example: "select cot_step_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    wanted: Wanted::AllTokens,
    entropies: true,
    readings: chain_reading,
    pick: |scores| scores.entropy.clone(),
};

pub(super) const COT_MEAN_STEP_ENTROPY: StepScore = StepScore {
    name: "cot_mean_step_entropy",
    about: "The mean entropy of the tokens of each step, in nats: `cot_step_entropy` divided by the number of the step's tokens. The blank line before a step does not count. The second version of the paper of Li et al. (2025) prunes by this mean, and the first by the sum. A step gets NULL if one of its tokens has no token before it. One forward pass computes this entropy and `cot_perplexity`. As published (second version).",
    arguments: QUESTION_AND_STEPS,
    example: "select cot_mean_step_entropy('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    wanted: Wanted::AllTokens,
    entropies: true,
    readings: chain_reading,
    pick: |scores| scores.mean_entropy.clone(),
};

pub(super) const COT_SELF_INFORMATION: StepScore = StepScore {
    name: "cot_self_information",
    about: "The self-information of each step, in nats per token: the mean −ln P of its tokens by the scoring model (`asap.scorer.model`). Selective Context (Li et al. 2023) prunes by this score. The model reads each step separately, after the token that begins a text (the tokenizer's BOS, else `<|endoftext|>`). So neither the question nor other steps influence the score. A step without a token gets NULL. A step longer than the model's window makes the row NULL. Differs from its publication: a unit is a step, which the model reads in place of a sentence.",
    arguments: &[STEPS],
    example: "select cot_self_information(['2 + 2 is 4.', 'Done.']);",
    wanted: Wanted::AllTokens,
    entropies: false,
    readings: |row| Ok(row.texts(0)?.into_iter().map(Reading::Alone).collect()),
    pick: |scores| scores.perplexity.iter().map(|perplexity| perplexity.map(f32::ln)).collect(),
};

pub(super) const COT_ATTRIBUTION: StepScore = StepScore {
    name: "cot_attribution",
    about: "For each step, how much the mean −ln P of the answer's tokens rises if this step is left out, in nats per token; above 0 if the step helps. This is the score of PIR (Xiao et al. 2025), which drops only functional steps by it: see `cot_drop_functional`. The scoring model (`asap.scorer.model`) reads the question, the steps, `</think>` and the answer, and for each step about half of the chain's tokens again. An empty answer gives NULL. As published.",
    arguments: &[
        QUESTION,
        argument!(steps: TextList, "The steps of a chain of thought, joined by a blank line."),
        argument!(answer: Text, "The answer, as it stands after `</think>`. An empty answer gives NULL."),
    ],
    example: "select cot_attribution('2 + 2?', ['2 + 2 is 4.', 'Done.'], '4');",
    wanted: Wanted::AllTokens,
    entropies: false,
    readings: |row| {
        let (chain, answer) = (QuestionAndSteps::new(row.asked(0)?, row.texts(1)?), row.text(2)?);
        if answer.is_empty() {
            return Err(NoValue::Null);
        }
        Ok(vec![Reading::Answer { chain, answer, left_out: true }])
    },
    pick: |scores| {
        let Some((whole, without)) = scores.answers.split_first() else { return vec![] };
        without.iter().map(|nats| Some((nats - whole) as f32)).collect()
    },
};
