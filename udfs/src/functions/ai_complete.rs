use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use futures::future::BoxFuture;

use super::by_anchorer::AskedFunction;
use crate::anchor::{Anchorer, Row};
use crate::columns::Args;
use crate::declaration::{Arg, Argument, Declaration};
use crate::llm::{self, Statement};

pub(crate) struct AiComplete;

impl AskedFunction for AiComplete {
    const DECLARATION: Declaration = Declaration {
        name: "ai_complete",
        about: "What the language model of `asap.anchor.*` says to a prompt, which is sent unchanged as the only message, at temperature 0. Equal prompts of a session are one call, and an answer that was paid before comes from the cache (`asap.cache.dir`). CASE and COALESCE ask for every row that reaches them, whatever branch it takes: to pay for some rows only, use WHERE, or a prompt that is NULL for the others. NULL for a NULL prompt and for a call that failed, which EXPLAIN ANALYZE counts; with `asap.on_error = 'fail'` it fails the query. With asap.anchor.provider = 'extractive' there is no language model, and the query is refused.",
        arguments: &[Argument::new("prompt", Arg::Text, "What the language model is asked.")],
        example: "select ai_complete('Name the topic in one word: ' || question) from corpus;",
    };
    const NEEDS_LANGUAGE_MODEL: bool = true;
    type Answer = Option<String>;

    fn returns() -> DataType {
        DataType::Utf8
    }

    fn ask<'a>(
        anchorer: &'a dyn Anchorer,
        row: Args<'a>,
        statement: &'a Arc<Statement>,
    ) -> BoxFuture<'a, llm::Result<Row<Option<String>>>> {
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
