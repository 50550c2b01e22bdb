//! Compression by Selective Context.

use std::borrow::Cow;
use std::sync::Arc;

use asap_kernels::selective::{Level, keep, sentences};
use asap_lm::{Reading, Scores, Tokenizer, Wanted};
use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err};

use super::by_score::{ROWS_IN_FLIGHT, score_rows};
use crate::call_metrics::CallMetrics;
use crate::columns::{Args, Cell, nullable};
use crate::declaration::{Declaration, argument};
use crate::function::{Asking, AsyncCall, CallRows, Function};
use crate::needs::SessionModels;
use crate::output::IntoArray;
use crate::{cores, llm};

const DECLARATION: Declaration = Declaration {
    name: "cot_selective_context",
    about: "The units of a text with the most self-information, in their order. This is Selective Context (Li et al. 2023). The scoring model (`asap.scorer.model`) reads each sentence separately, after the token that begins a text (the tokenizer's BOS, else `<|endoftext|>`). The self-information of a token is −ln P, and that of a unit is the mean over its tokens. A token that covers several words counts for each with an equal share. Units below the percentile `100 · (1 − ratio)` of all units of the text are dropped, with the white space before them. Sentences and words are those of Unicode (UAX #29), so a punctuation mark is a word. A ratio of 1 returns the text unchanged. A sentence longer than the model's window gives NULL. Differs from its publication: units are words by the rules of Unicode. Papers that compare with it do not say which units they drop, and the default units of its program are noun chunks.",
    arguments: &[
        argument!(text: Text, "The text to compress, such as a chain of thought."),
        argument!(ratio: Share, "The share of the units to keep, above 0 and at most 1. Another value gives NULL."),
        argument!(level?: Text, "The units: `word` (the default), `token` (of the scoring model) or `sentence`. Another value fails the query."),
    ],
    example: "select cot_selective_context('Hm, so 2 + 2 is 4, I think.', 0.5);",
};

struct CotSelectiveContext(SessionModels);

pub(super) fn cot_selective_context(session: &SessionModels) -> Result<Function> {
    Ok(Function::of_calls(DECLARATION, Cow::data_type()?, CotSelectiveContext(session.clone())))
}

fn level(row: Args) -> Cell<Level> {
    let name = if row.is_given(2) { row.text(2)? } else { "word" };
    let level = Level::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, level)| level);
    let known = || Level::ALL.map(|(known, _)| known).join(", ");
    let unknown = || exec_datafusion_err!("level of cot_selective_context must be one of {}, found {name}", known());
    Ok(level.ok_or_else(unknown)?)
}

fn readings(row: Args) -> Cell<Vec<Reading>> {
    let (text, ratio, _) = (row.text(0)?, row.share(1)?, level(row)?);
    let sentences = if ratio < 1.0 { sentences(text) } else { vec![] };
    Ok(sentences.into_iter().map(|sentence| Reading::Alone(&text[sentence])).collect())
}

fn compress<'a>(tokenizer: &Tokenizer, row: Args<'a>, scored: &[Arc<Scores>]) -> Cell<Cow<'a, str>> {
    let (text, ratio, level) = (row.text(0)?, row.share(1)?, level(row)?);
    if ratio == 1.0 {
        return Ok(Cow::Borrowed(text));
    }
    let mut units = vec![];
    for (sentence, scores) in sentences(text).into_iter().zip(scored) {
        let own = &text[sentence.clone()];
        let spans = tokenizer.encode(own, false)?.offsets.into_iter().map(|(from, to)| from as usize..to as usize);
        let nats = scores.tokens.iter().flatten().flatten().map(|token| f64::from(token.surprisal));
        let mut own = level.units(own, &spans.zip(nats).collect::<Vec<_>>());
        own.iter_mut().for_each(|unit| unit.span = unit.span.start + sentence.start..unit.span.end + sentence.start);
        units.extend(own);
    }
    Ok(Cow::Owned(keep(text, &units, ratio)))
}

#[async_trait]
impl AsyncCall for CotSelectiveContext {
    fn asking(&self) -> Asking<'_> {
        Asking { scorer: Some(&self.0), rows_in_flight: ROWS_IN_FLIGHT, ..Asking::default() }
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let scored = score_rows(&self.0, DECLARATION.name, Wanted::EachToken, readings, rows, metrics).await?;
        let (tokenizer, columns) = (self.0.models.tokenizer(rows.config())?, rows.columns.clone());
        let compressed = move || {
            let compress = |(row, scored): (usize, &Option<Vec<Arc<Scores>>>)| match scored {
                Some(scored) => nullable(compress(&tokenizer, columns.row(row), scored)),
                None => Ok(None),
            };
            let rows: Vec<_> = scored.iter().enumerate().map(compress).collect::<Result<_>>()?;
            IntoArray::array(rows)
        };
        cores::run(compressed).await.map_err(llm::failed)?
    }
}
