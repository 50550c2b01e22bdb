use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg};
use crate::kernels::gestalt::Gestalt;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The Gestalt (Ratcliff/Obershelp) similarity of two texts, from 0 to 1: twice the number of matching characters, by the number of all. Characters are Unicode scalars, ties are resolved as Python's difflib does; every character counts, however often it occurs (`autojunk=False`).",
    syntax_example = "cot_similarity(a, b)",
    sql_example = "select cot_similarity('2 + 2 is 4', '2 + 2 = 4');\n-- 0.8421052631578947",
    argument(name = "a", description = "The text to compare."),
    argument(name = "b", description = "The text that it is compared with. Exchanging both may change the result.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotSimilarity {
    signature: Signature,
}

impl Default for CotSimilarity {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CotSimilarity {
    fn name(&self) -> &str {
        "cot_similarity"
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
        Ok(ColumnarValue::Array(ratios(&args, Gestalt::new(false))?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}

/// The similarity of the first argument to the second in each row.
pub(super) fn ratios(args: &ScalarFunctionArgs, mut gestalt: Gestalt) -> Result<ArrayRef> {
    let arrays = args::arrays(args)?;
    let mut prepared = None;
    let ratios = args::texts(&arrays[0]).iter().zip(args::texts(&arrays[1])).map(|(a, b)| {
        let (a, b) = (a?, b?);
        if prepared != Some(b) {
            gestalt.set_b(b);
            prepared = Some(b);
        }
        Some(gestalt.ratio(a))
    });
    Ok(Arc::new(ratios.collect::<Float64Array>()))
}
