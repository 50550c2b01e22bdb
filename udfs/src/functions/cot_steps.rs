use std::sync::Arc;

use datafusion::arrow::array::{ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg};
use crate::kernels::steps;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The steps of a chain of thought, cut at blank lines: at `(\\r?\\n){2,}`, so a line that holds spaces does not separate. A step loses blank lines around it and white space at its end, and keeps its first line's indentation. Steps with nothing left are dropped.",
    syntax_example = "cot_steps(cot)",
    sql_example = "select cot_steps(E'2 + 2?\\n\\nIt is 4.');\n-- [2 + 2?, It is 4.]",
    argument(name = "cot", description = "A chain of thought.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotSteps {
    signature: Signature,
}

impl Default for CotSteps {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CotSteps {
    fn name(&self) -> &str {
        "cot_steps"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("cot", Arg::Text)], 1, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let mut lists = ListBuilder::new(StringBuilder::new());
        for chain in args::texts(&arrays[0]) {
            lists.append_option(chain.map(|chain| steps::steps(chain).into_iter().map(Some)));
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
