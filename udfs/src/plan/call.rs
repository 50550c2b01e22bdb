//! SQL functions whose rows wait for something outside of the engine: a language model, a server.

use std::any::Any;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::physical_expr_common::physical_expr::{DynEq, DynHash};

use super::meter::Meter;

/// An asynchronous function of rows. Equal calls are those whose `Eq` says so; the engine merges them.
#[async_trait]
pub trait AsyncCall: Debug + DynEq + DynHash + Send + Sync + Any {
    /// The function's name in SQL.
    fn name(&self) -> &str;

    /// Its arguments, and whether equal arguments give equal results.
    fn signature(&self) -> &Signature;

    /// The types that arguments of these types are cast to.
    ///
    /// # Errors
    /// A planning error that names the function and the argument.
    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>>;

    /// The type of its result for arguments of these types.
    ///
    /// # Errors
    /// If there is none.
    fn return_type(&self, given: &[DataType]) -> Result<DataType>;

    /// What `information_schema.routines` shows.
    fn documentation(&self) -> Option<&Documentation>;

    /// Rows of one partition that may be in flight: begun, and not handed on. It may be more than the calls that are
    /// made at once, so that a slow row does not hold up those behind it.
    fn window(&self, config: &ConfigOptions) -> usize;

    /// What is to live until all rows of a statement that is executed in this context are through.
    fn hold(&self, _context: &Arc<TaskContext>) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// The results of some rows, as many as there are rows. It runs beside others of its kind, and is dropped when the
    /// query is.
    ///
    /// # Errors
    /// Those that fail the query; what is wrong with a row belongs into its result.
    async fn call(&self, args: &CallArgs, meter: &Arc<Meter>) -> Result<ArrayRef>;
}

/// The arguments of a call for some rows.
#[derive(Debug, Clone)]
pub struct CallArgs {
    /// The arguments in order, each of [`Self::rows`] values.
    pub arrays: Vec<ArrayRef>,
    /// The number of rows.
    pub rows: usize,
    /// What the statement is executed in, with the settings of its session.
    pub context: Arc<TaskContext>,
    /// The type of the result.
    pub return_field: FieldRef,
}

/// The function of an [`AsyncCall`], as it is registered.
#[derive(Debug, Clone)]
pub struct AsyncFunction {
    call: Arc<dyn AsyncCall>,
}

impl CallArgs {
    /// The settings of the statement's session.
    pub fn config(&self) -> &ConfigOptions {
        self.context.session_config().options()
    }
}

impl AsyncFunction {
    /// The function of this call.
    pub fn new(call: impl AsyncCall) -> Self {
        Self { call: Arc::new(call) }
    }

    /// The call that a function makes, if it makes one.
    pub fn call_of(function: &ScalarUDF) -> Option<&Arc<dyn AsyncCall>> {
        function.inner().downcast_ref::<Self>().map(|function| &function.call)
    }
}

impl PartialEq for AsyncFunction {
    fn eq(&self, other: &Self) -> bool {
        self.call.dyn_eq(other.call.as_ref() as &dyn Any)
    }
}

impl Eq for AsyncFunction {}

impl Hash for AsyncFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.dyn_hash(state);
    }
}

impl ScalarUDFImpl for AsyncFunction {
    fn name(&self) -> &str {
        self.call.name()
    }

    fn signature(&self) -> &Signature {
        self.call.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.call.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.call.return_type(given)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(misplaced(self.name(), "an expression of its own"))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.call.documentation()
    }
}

/// The name of the first call in an expression, subqueries left out.
pub(super) fn first_call(expr: &Expr) -> Option<String> {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    let mut found = None;
    // The closure does not fail, so neither does the walk.
    drop(expr.apply(|expr| match expr {
        Expr::ScalarFunction(function) if AsyncFunction::call_of(&function.func).is_some() => {
            found = Some(function.name().to_string());
            Ok(TreeNodeRecursion::Stop)
        }
        _ => Ok(TreeNodeRecursion::Continue),
    }));
    found
}

/// Why a call cannot stand in `place`, and what to do.
pub(super) fn misplaced(function: &str, place: &str) -> DataFusionError {
    plan_datafusion_err!(
        "{function} makes calls and cannot stand in {place}: call it in a subquery, as in \
         FROM (SELECT *, {function}(…) AS called FROM …), and use its column"
    )
}
