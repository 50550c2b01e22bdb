use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_macros::user_doc;

use crate::settings::Settings;

#[user_doc(
    doc_section(label = "Chain of Thought Functions"),
    description = "The most tokens that a pruned chain may have: the setting `asap.refine.max_tokens`.",
    syntax_example = "cot_budget()",
    sql_example = "select cot_budget();\n-- 4096"
)]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CotBudget {
    signature: Signature,
}

impl Default for CotBudget {
    fn default() -> Self {
        Self { signature: Signature::nullary(Volatility::Stable) }
    }
}

impl ScalarUDFImpl for CotBudget {
    fn name(&self) -> &str {
        "cot_budget"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let budget = Settings::of(&args.config_options)?.refine_max_tokens;
        Ok(ColumnarValue::Scalar(ScalarValue::Int64(Some(budget))))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.doc()
    }
}
