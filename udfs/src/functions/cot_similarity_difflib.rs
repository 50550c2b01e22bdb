use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use super::cot_similarity::ratios;
use crate::args::{self, Arg};
use crate::kernels::gestalt::Gestalt;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "`cot_similarity` with the default of Python's difflib (`autojunk=True`): in a `b` of at least 200 characters those that make up more than 1 % of it start no match. It is what the paper's published code computes, and is lower for long texts.",
    syntax_example = "cot_similarity_difflib(a, b)",
    sql_example = "select cot_similarity_difflib('2 + 2 is 4', '2 + 2 = 4');\n-- 0.8421052631578947",
    argument(name = "a", description = "The text to compare."),
    argument(name = "b", description = "The text that it is compared with. Exchanging both may change the result.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotSimilarityDifflib {
    signature: Signature,
}

impl Default for CotSimilarityDifflib {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CotSimilarityDifflib {
    fn name(&self) -> &str {
        "cot_similarity_difflib"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("a", Arg::Text), ("b", Arg::Text)], 2, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(ratios(&args, Gestalt::new(true))?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
