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
        about: "The answer to a prompt by the language model of `asap.anchor.*`, at temperature 0. The model gets only the prompt, without changes. Equal prompts of a session share one call. An answer that was paid for earlier comes from the answer cache (`asap.cache.dir`). CASE and COALESCE call the model for every row that reaches them, even if the row takes another branch. To pay for some rows only, use WHERE, or pass a NULL prompt for the other rows. A NULL prompt and a failed call give NULL. EXPLAIN ANALYZE counts failed calls. With `asap.on_error = 'fail'`, a failed call fails the query. With asap.anchor.provider = 'extractive', asap rejects the query.",
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
