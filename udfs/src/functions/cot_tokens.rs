//! Lengths in tokens, the limits that they must keep, and why a row has no score.

use std::borrow::Cow;
use std::sync::Arc;

use asap_lm::{LmError, PromptTemplate, Scorer, Tokenizer};

use super::arguments::{QUESTION, READ_STEPS};
use super::by_row::RowFunction;
use crate::columns::NoValue;
use crate::declaration::argument;
use crate::losses::Losses;
use crate::output::Text;
use crate::settings::Settings;

pub(super) const COT_TOKENS: RowFunction<Arc<Tokenizer>, i64> = RowFunction {
    name: "cot_tokens",
    about: "The length of a text in tokens of the scoring model (`asap.scorer.model`), without special tokens.",
    arguments: &[argument!(text: Text, "Any text.")],
    example: "select cot_tokens('2 + 2 is 4');\n-- 7",
    row: |tokenizer, row| Ok(tokenizer.length(row.text(0)?)? as i64),
};

pub(super) const COT_BUDGET: RowFunction<Settings, i64> = RowFunction {
    name: "cot_budget",
    about: "The largest number of tokens that a pruned chain may have: `asap.refine.max_tokens`, or `tokens` times `asap.refine.ratio`, rounded down. If both settings are set, the result is the smaller number; if neither is set, it is 4096, L_max of the ASAP paper. Without `tokens`, the ratio has no effect.",
    arguments: &[argument!(tokens?: Int, "The length of the original chain in tokens.")],
    example: "select cot_budget(cot_tokens('Hm. 2 + 2 is 4.'));\n-- 4096",
    row: |settings, row| {
        // Without a ratio, a NULL does not count.
        let has_ratio = row.is_given(0) && settings.refine_ratio.is_some();
        Ok(settings.budget(if has_ratio { Some(row.int(0)?) } else { None }))
    },
};

pub(super) const COT_TOO_LONG: RowFunction<Arc<Scorer>, Text> = RowFunction {
    name: "cot_too_long",
    about: "The reason, in words, why the scoring model (`asap.scorer.model`) cannot read a chain, or a chain and its answer; NULL if the text fits. The reason names the length of the text in tokens, the prompt included, and the model's window.",
    arguments: &[
        QUESTION,
        READ_STEPS,
        argument!(answer?: Text, "The answer, for functions that read the answer after `</think>`. Without this argument, only the chain must fit."),
    ],
    example: "select cot_too_long('2 + 2?', ['2 + 2 is 4.']);\n-- NULL",
    row: |scorer, row| {
        let chain = row.chain(0, 1)?;
        let answer = if row.is_given(2) { Some(row.text(2)?) } else { None };
        scorer.too_long(&chain, answer)?.map(Cow::Owned).ok_or(NoValue::Null)
    },
};

/// Loads no weights, so that it costs little where only tokens are made.
pub(super) const COT_NO_SCORE: RowFunction<(Arc<PromptTemplate>, Losses), Text> = RowFunction {
    name: "cot_no_score",
    about: "The reason, in words, why a row has no score by the scoring model (`asap.scorer.model`), or no example, although it is not too long; NULL if there is no such reason. The reason is the error of the chat template with its own message, or that the template does not print the question or the system prompt as it is. With `steps`, it is also how the model failed on these steps earlier in this session: NaN or infinite values, a Python process that died twice, or a server that cannot read the row. A template that prints no system prompt at all is not a reason.",
    arguments: &[
        QUESTION,
        argument!(steps?: TextList, "The steps of the chain that has no score. Without this argument, only the prompt is tried."),
    ],
    example: "select cot_no_score('2 + 2?', ['2 + 2 is 4.']);\n-- NULL",
    row: |(prompt, losses), row| {
        let chain = if row.is_given(1) { row.chain(0, 1) } else { Err(NoValue::Null) };
        let rendered = match &chain {
            Ok(chain) if !chain.turns.is_empty() => chain.try_prompt(prompt),
            _ => prompt.render(row.asked(0)?).map(drop),
        };
        match rendered {
            Err(LmError::Prompt(why)) => return Ok(Cow::Owned(why)),
            rendered => rendered?,
        }
        losses.of(chain?.steps.into_iter()).map(Cow::Owned).ok_or(NoValue::Null)
    },
};
