use std::sync::Arc;

use datafusion::arrow::array::StringArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg};
use crate::kernels::tags;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "What follows the chain of thought of a generation: the text behind its closing tag (`</think>`, `<|end_of_thought|>`), stripped, without the tags of a solution. A missing closing tag gives NULL.",
    syntax_example = "cot_response(generation)",
    sql_example = "select cot_response('<think>2 + 2 is 4</think>4');\n-- 4",
    argument(name = "generation", description = "What the reasoning model wrote.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotResponse {
    signature: Signature,
}

impl Default for CotResponse {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CotResponse {
    fn name(&self) -> &str {
        "cot_response"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("generation", Arg::Text)], 1, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let responses: StringArray = args::texts(&arrays[0]).iter().map(|text| text.and_then(tags::response)).collect();
        Ok(ColumnarValue::Array(Arc::new(responses)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
