//! The operator `||` on texts, as a function with bounds: a chain of it repeats a text as often as it is named.

use std::sync::Arc;

use datafusion::arrow::compute::kernels::concat_elements::concat_elements_dyn;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans `||` between texts as a call. Between lists and other types it stays the engine's.
#[derive(Debug)]
pub(super) struct JoinsTexts(pub Arc<ScalarUDF>);

impl ExprPlanner for JoinsTexts {
    fn plan_binary_op(&self, binary: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_text = |side: &Expr| side.get_type(schema).is_ok_and(|kind| kind.is_string());
        match binary.op == BinaryOperator::StringConcat && is_text(&binary.left) && is_text(&binary.right) {
            true => Ok(PlannerResult::Planned(self.0.call(vec![binary.left, binary.right]))),
            false => Ok(PlannerResult::Original(binary)),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Joined {
    signature: Signature,
}

impl Default for Joined {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        "||"
    }

    /// The name of a column, as the engine has it for the operator.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names = args.iter().map(|arg| arg.schema_name().to_string());
        Ok(names.collect::<Vec<_>>().join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = given else { return plan_err!("|| joins two texts") };
        let widest = [DataType::Utf8View, DataType::LargeUtf8].into_iter().find(|kind| kind == left || kind == right);
        Ok(vec![widest.unwrap_or(DataType::Utf8); 2])
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[0].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = call.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let texts = ColumnarValue::values_to_arrays(&call.args)?;
        let joined = concat_elements_dyn(&texts[0], &texts[1])?;
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?)),
            false => Ok(ColumnarValue::Array(joined)),
        }
    }
}
