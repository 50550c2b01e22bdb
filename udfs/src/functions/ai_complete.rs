use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Documentation, Signature, Volatility};
use datafusion_macros::user_doc;

use super::asked;
use crate::args::{self, Arg};
use crate::llm::{Completion, Llm};
use crate::plan::{AsyncCall, CallArgs, Meter};
use crate::settings::Settings;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "What the language model of `asap.anchor.*` says to a prompt, which is sent unchanged as the only message, at temperature 0. Equal prompts of a session are one call, and an answer that was paid before comes from the cache (`asap.cache.dir`). CASE and COALESCE ask for every row that reaches them, whatever branch it takes: to pay for some rows only, use WHERE, or a prompt that is NULL for the others. NULL for a NULL prompt and for a call that failed, which EXPLAIN ANALYZE counts; with `asap.on_error = 'fail'` it fails the query. With asap.anchor.provider = 'extractive' there is no language model, and the query is refused.",
    syntax_example = "ai_complete(prompt)",
    sql_example = "select ai_complete('Name the topic in one word: ' || question) from corpus;",
    argument(name = "prompt", description = "What the language model is asked.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct AiComplete {
    signature: Signature,
    llm: Llm,
}

impl AiComplete {
    pub fn new(llm: Llm) -> Self {
        Self { signature: Signature::user_defined(Volatility::Volatile), llm }
    }
}

#[async_trait]
impl AsyncCall for AiComplete {
    fn name(&self) -> &str {
        "ai_complete"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("prompt", Arg::Text)], 1, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }

    fn window(&self, config: &ConfigOptions) -> usize {
        asked::window(config)
    }

    fn hold(&self, context: &Arc<TaskContext>) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.llm.statement(context))
    }

    async fn call(&self, args: &CallArgs, meter: &Arc<Meter>) -> Result<ArrayRef> {
        let settings = Settings::of(args.config())?;
        let anchoring = self.llm.anchoring(settings)?.within(self.llm.statement(&args.context));
        let prompts = args::texts(&args.arrays[0]);
        let anchoring = &anchoring;
        let completions = asked::rows(args.rows, |row| async move {
            let Some(prompt) = args::text_at(prompts, row) else { return Ok(None) };
            let completion = anchoring.complete(prompt).await?;
            asked::record(meter, &completion);
            Ok(Some(completion))
        })
        .await?;
        let asked: Vec<Completion> = completions.iter().flatten().cloned().collect();
        asked::check(self.name(), settings, &asked)?;
        let texts = completions.iter().map(|completion| completion.as_ref().and_then(|done| done.text.as_deref()));
        Ok(Arc::new(texts.collect::<StringArray>()))
    }
}
