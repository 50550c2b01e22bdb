//! A call in a physical plan.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::function::{AsyncCall, Function};

#[derive(Debug, Clone)]
pub(crate) struct PlannedCall {
    pub(super) expression: Arc<dyn PhysicalExpr>,
    pub(super) call: Arc<dyn AsyncCall>,
    pub(super) args: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) field: FieldRef,
}

impl PlannedCall {
    pub(super) fn try_new(expression: Arc<dyn PhysicalExpr>, column: &str, input: &Schema) -> Result<Self> {
        let function = expression.downcast_ref::<ScalarFunctionExpr>();
        let call = function.and_then(|function| Function::call_of(function.fun()));
        let (Some(function), Some(call)) = (function, call) else {
            return Err(exec_datafusion_err!(
                "expected a call of a function of asap, found {expression}: register the functions of asap in the session that runs the plan"
            ));
        };
        let (args, call) = (function.args().to_vec(), Arc::clone(call));
        let field: Field = expression.return_field(input)?.as_ref().clone().with_name(column);
        Ok(Self { expression, call, args, field: Arc::new(field) })
    }
}
