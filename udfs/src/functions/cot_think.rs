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
    description = "The chain of thought of a generation: from the first opening tag (`<think>`, `<|begin_of_thought|>`) to the first closing tag after it, stripped. A missing opening tag is accepted, a missing closing one gives NULL.",
    syntax_example = "cot_think(generation)",
    sql_example = "select cot_think('<think>2 + 2 is 4</think>4');\n-- 2 + 2 is 4",
    argument(name = "generation", description = "What the reasoning model wrote.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotThink {
    signature: Signature,
}

impl Default for CotThink {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CotThink {
    fn name(&self) -> &str {
        "cot_think"
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
        let chains: StringArray = args::texts(&arrays[0]).iter().map(|text| text.and_then(tags::think)).collect();
        Ok(ColumnarValue::Array(Arc::new(chains)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
