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
    description = "First-token surprisal of each step in nats: −ln P(first token | question, earlier steps) by the scoring model (`asap.scorer.model`), all steps in one pass. The first token is the one that covers the step's first character; NULL where nothing precedes it or the step has no token. A chain longer than the window of the model gives NULL, or fails the query if `asap.on_error` is `fail`.",
    syntax_example = "cot_surprisal(question, steps)",
    sql_example = "select cot_surprisal('2 + 2?', ['2 + 2 is 4.', 'Done.']);",
    argument(name = "question", description = "What the chain answers; it is put into `asap.scorer.prompt`."),
    argument(
        name = "steps",
        description = "The steps of a chain of thought; the model reads them joined by a blank line."
    )
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotSurprisal {
    signature: Signature,
    models: Models,
}

impl CotSurprisal {
    pub fn new(models: Models) -> Self {
        Self { signature: Signature::user_defined(Volatility::Stable), models }
    }
}

#[async_trait]
impl AsyncCall for CotSurprisal {
    fn name(&self) -> &str {
        "cot_surprisal"
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
        scored::scores(self.name(), &self.models, args, meter, Wanted::FirstTokens, |scores| {
            scores.first.iter().map(|token| token.map(|token| token.surprisal)).collect()
        })
        .await
    }
}
