use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::{Documentation, Signature, Volatility};
use datafusion_macros::user_doc;

use super::scored;
use crate::args;
use crate::lm::{Models, Wanted};
use crate::plan::{AsyncCall, CallArgs, Meter};

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "Perplexity of each step by the scoring model (`asap.scorer.model`): exp of the mean −ln P over the step's own tokens, from its first to the last that begins before its end. NULL if one of them has no score. It takes a pass of its own, after which the row's surprisal and entropy are known too. A chain longer than the window of the model gives NULL, or fails the query if `asap.on_error` is `fail`.",
    syntax_example = "cot_perplexity(question, steps)",
    sql_example = "select cot_perplexity('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    argument(name = "question", description = "What the chain answers; it is put into `asap.scorer.prompt`."),
    argument(
        name = "steps",
        description = "The steps of a chain of thought; the model reads them joined by a blank line."
    )
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotPerplexity {
    signature: Signature,
    models: Models,
}

impl CotPerplexity {
    pub fn new(models: Models) -> Self {
        Self { signature: Signature::user_defined(Volatility::Stable), models }
    }
}

#[async_trait]
impl AsyncCall for CotPerplexity {
    fn name(&self) -> &str {
        "cot_perplexity"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &scored::ARGUMENTS, 2, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(scored::scores_type())
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }

    fn window(&self, _: &ConfigOptions) -> usize {
        scored::ROWS_IN_FLIGHT
    }

    async fn call(&self, args: &CallArgs, meter: &Arc<Meter>) -> Result<ArrayRef> {
        scored::scores(self.name(), &self.models, args, meter, Wanted::AllTokens, |scores| scores.perplexity.clone())
            .await
    }
}
