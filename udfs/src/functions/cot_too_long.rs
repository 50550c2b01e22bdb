use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use super::scored;
use crate::args;
use crate::lm::Models;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "Why the scoring model (`asap.scorer.model`) cannot read a chain: its tokens with the prompt and the window of the model, in words. NULL if the chain fits.",
    syntax_example = "cot_too_long(question, steps)",
    sql_example = "select cot_too_long('2 + 2?', ['2 + 2 is 4.']);\n-- NULL",
    argument(name = "question", description = "What the chain answers; it is put into `asap.scorer.prompt`."),
    argument(
        name = "steps",
        description = "The steps of a chain of thought; the model reads them joined by a blank line."
    )
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotTooLong {
    signature: Signature,
    models: Models,
}

impl CotTooLong {
    pub fn new(models: Models) -> Self {
        Self { signature: Signature::user_defined(Volatility::Stable), models }
    }
}

impl ScalarUDFImpl for CotTooLong {
    fn name(&self) -> &str {
        "cot_too_long"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &scored::ARGUMENTS, 2, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        scored::too_long(&self.models, &args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
