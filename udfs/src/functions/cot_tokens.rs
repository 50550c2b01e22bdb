use std::sync::Arc;

use datafusion::arrow::array::Int64Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;
use rayon::prelude::*;

use crate::args::{self, Arg};
use crate::lm::Models;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The length of a text in tokens of the scoring model (`asap.scorer.model`), no special tokens added.",
    syntax_example = "cot_tokens(text)",
    sql_example = "select cot_tokens('2 + 2 is 4');\n-- 7",
    argument(name = "text", description = "Any text.")
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotTokens {
    signature: Signature,
    models: Models,
}

impl CotTokens {
    pub fn new(models: Models) -> Self {
        Self { signature: Signature::user_defined(Volatility::Stable), models }
    }
}

impl ScalarUDFImpl for CotTokens {
    fn name(&self) -> &str {
        "cot_tokens"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        args::coerce(self.name(), &[("text", Arg::Text)], 1, given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args::arrays(&args)?;
        let tokenizer = self.models.tokenizer(&args.config_options)?;
        let texts = args::texts(&arrays[0]);
        let counts = (0..args.number_rows).into_par_iter().map(|row| match args::text_at(texts, row) {
            Some(text) => Ok(Some(tokenizer.length(text)? as i64)),
            None => Ok(None),
        });
        Ok(ColumnarValue::Array(Arc::new(Int64Array::from(counts.collect::<Result<Vec<_>>>()?))))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
