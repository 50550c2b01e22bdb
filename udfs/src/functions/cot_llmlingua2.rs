//! Compression by LLMLingua-2.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use asap_lm::Tokenizer;
use asap_lm::compressor::Compressor;
use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;

use crate::call_metrics::CallMetrics;
use crate::declaration::{Declaration, argument};
use crate::function::{Asking, AsyncCall, CallRows, Function};
use crate::models::failed;
use crate::needs::SessionModels;
use crate::output::IntoArray;
use crate::settings::Settings;
use crate::{cores, llm};

/// Rows that are compressed together: their chunks keep all cores busy, and a cancelled query ends soon.
const ROWS_IN_FLIGHT: usize = 16;

const DECLARATION: Declaration = Declaration {
    name: "cot_llmlingua2",
    about: "Keeps the words of a text that the encoder `asap.compressor.model` scores highest, about the share `rate` of the text's tokens. The method is LLMLingua-2 (Pan et al. 2024). The result has the format of the Python package llmlingua: each run of white space, line ends included, becomes a single space. `asap.compressor.force_tokens`, `asap.compressor.reserve_digits` and `asap.compressor.drop_consecutive` override the encoder. A rate of 1 returns the text unchanged. As published, with one exception: `rate` counts tokens of `asap.scorer.model`, and the package counts tokens of GPT-3.5.",
    arguments: &[
        argument!(text: Text, "The text to compress, such as a chain of thought."),
        argument!(rate: Share, "The share of the text to keep, above 0 and at most 1. Any other value gives NULL."),
    ],
    example: "select cot_llmlingua2('Hm, so 2 + 2 is 4, I think.', 0.5);",
};

struct CotLlmlingua2(SessionModels);

pub(super) fn cot_llmlingua2(session: &SessionModels) -> Result<Function> {
    Ok(Function::of_calls(DECLARATION, Cow::data_type()?, CotLlmlingua2(session.clone())))
}

impl CotLlmlingua2 {
    /// Returns the encoder, and the scoring model's tokenizer, which counts the tokens of each word.
    fn models(&self, config: &ConfigOptions) -> Result<(Arc<Compressor>, Arc<Tokenizer>)> {
        Ok((self.0.models.compressor(config)?, self.0.models.tokenizer(config)?))
    }
}

#[async_trait]
impl AsyncCall for CotLlmlingua2 {
    fn prepare(&self, config: &ConfigOptions) -> Result<()> {
        self.models(config).map(drop)
    }

    fn asking(&self) -> Asking<'_> {
        Asking { is_of_encoder: true, rows_in_flight: ROWS_IN_FLIGHT, ..Asking::default() }
    }

    fn hold(&self, context: &Arc<TaskContext>) -> Option<Arc<dyn Any + Send + Sync>> {
        // If they cannot be loaded, the first call reports why.
        let models = self.models(context.session_config().options()).ok()?;
        Some(Arc::new(models))
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let (compressor, tokenizer) = self.models(rows.config())?;
        let options = Settings::of(rows.config())?.compression();
        let columns = rows.columns.clone();
        let compressed = cores::run(move || {
            let asked = columns.read(|row| Ok((row.text(0)?, row.share(1)?)))?;
            let texts: Vec<(&str, f64)> = asked.iter().copied().flatten().collect();
            let compressed =
                compressor.compress_all(&texts, &options, &|word| tokenizer.count(word)).map_err(failed)?;
            let mut compressed = compressed.into_iter();
            let rows = asked.iter().map(|asked| asked.and_then(|_| compressed.next()).map(Cow::Owned));
            Ok::<Vec<Option<Cow<str>>>, DataFusionError>(rows.collect())
        })
        .await
        .map_err(llm::failed)??;
        metrics.calls.add(compressed.iter().flatten().count());
        IntoArray::array(compressed)
    }
}
