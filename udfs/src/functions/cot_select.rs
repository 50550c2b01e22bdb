use std::sync::Arc;

use datafusion::arrow::array::StringArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::args::{self, Arg, Lists};
use crate::kernels::steps::join;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The chosen steps, in the order in which they are chosen, joined by a blank line. No step gives an empty text, a number that names no step gives NULL.",
    syntax_example = "cot_select(steps, kept)",
    sql_example = "select cot_select(['Hm.', '2 + 2 is 4.', 'Done.'], [2, 3]);\n-- 2 + 2 is 4.\\n\\nDone.",
    argument(name = "steps", description = "The steps of a chain of thought."),
    argument(name = "kept", description = "Which of them to join, from 1.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotSelect {
    signature: Signature,
}

impl Default for CotSelect {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CotSelect {
    fn name(&self) -> &str {
        "cot_select"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("steps", Arg::TextList), ("kept", Arg::IntList)], 2, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let (steps, kept) = (Lists::new(&arrays[0]), Lists::new(&arrays[1]));
        let chains = (0..args.number_rows).map(|row| {
            let steps = steps.texts(row)?;
            let kept = args::zero_based(&kept.ints(row)?, steps.len())?;
            Some(join(kept.into_iter().map(|step| steps[step])))
        });
        Ok(ColumnarValue::Array(Arc::new(chains.collect::<StringArray>())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
