use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::common::Result;

use super::by_anchorer::{AskedFunction, Asking};
use crate::anchor::{Anchorer, Row};
use crate::columns::Args;
use crate::declaration::{Arg, Argument, Declaration};
use crate::llm::Statement;

pub(crate) struct AiComplete;

impl AskedFunction for AiComplete {
    const DECLARATION: Declaration = Declaration {
        name: "ai_complete",
        about: "The answer of the language model of `asap.anchor.*` to a prompt, at temperature 0. The prompt is sent unchanged as the only message. Equal prompts of a session share one call, and an answer that was paid for earlier comes from the answer cache (`asap.cache.dir`). CASE and COALESCE call the model for every row that reaches them, whichever branch the row takes. To pay for some rows only, use WHERE, or pass a NULL prompt for the others. NULL for a NULL prompt and for a failed call, which EXPLAIN ANALYZE counts. With `asap.on_error = 'fail'` a failed call fails the query. With asap.anchor.provider = 'extractive' there is no language model, and the query is rejected.",
        arguments: &[Argument::new("prompt", Arg::Text, "The prompt to send.")],
        example: "select ai_complete('Name the topic in one word: ' || question) from corpus;",
    };
    const NEEDS_LANGUAGE_MODEL: bool = true;
    type Answer = Option<String>;

    fn ask<'a>(anchorer: &'a dyn Anchorer, row: Args<'a>, statement: &'a Arc<Statement>) -> Asking<'a, Option<String>> {
        Box::pin(async move {
            let Ok(prompt) = row.text(0) else { return Ok(Row::unasked(Ok(None))) };
            let Row { outcome, spent } = anchorer.complete(prompt, Some(statement)).await?;
            Ok(Row { outcome: outcome.map(Some), spent })
        })
    }

    fn array(rows: &[Row<Option<String>>]) -> Result<ArrayRef> {
        let texts = rows.iter().map(|row| row.outcome.as_ref().ok()?.as_deref());
        Ok(Arc::new(texts.collect::<StringArray>()))
    }
}
