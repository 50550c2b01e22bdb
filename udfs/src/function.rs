//! SQL functions as they are registered: what they declare, what they need, and what they compute.

use std::any::Any;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr_common::physical_expr::{DynEq, DynHash};

use crate::call_metrics::CallMetrics;
use crate::columns::Columns;
use crate::declaration::Declaration;

/// What a function needs to be there before its query begins. Equal ones are those whose `Eq` says so; the engine merges
/// equal calls.
pub trait Prepare: Debug + DynEq + DynHash + Send + Sync + Any {
    /// Loads and checks it, so that what is wrong is one clear error before any row is read or any call is paid.
    fn prepare(&self, _config: &ConfigOptions) -> Result<()> {
        Ok(())
    }
}

/// What a function computes where it stands.
pub trait Rows: Prepare {
    /// A query is planned whose memory is this: what is remembered of rows counts there.
    fn remember_in(&self, _pool: &Arc<dyn MemoryPool>) {}

    /// The results of all rows.
    ///
    /// # Errors
    /// Those that fail the query; what is wrong with a row is NULL.
    fn compute(&self, columns: &Columns, config: &ConfigOptions) -> Result<ArrayRef>;
}

/// What a function computes outside of the engine: its rows wait for a model or a server.
#[async_trait]
pub trait AsyncCall: Prepare {
    /// Rows of one partition that may be in flight: begun, and not handed on. It may be more than the calls that are
    /// made at once, so that a slow row does not hold up those behind it.
    fn window(&self, config: &ConfigOptions) -> usize;

    /// Whether its calls ask a language model, which may be paid.
    fn asks(&self) -> bool {
        false
    }

    /// Whether its calls read texts by the scoring model.
    fn scores(&self) -> bool {
        false
    }

    /// Whether its scores say what it reads next, so that a count of it with scores that are all equal is not exact.
    fn reads_by_scores(&self) -> bool {
        false
    }

    /// How much of its arguments it reads. Of calls with equal arguments those that read less wait for those that read more, and
    /// find what they need remembered.
    fn reach(&self) -> u8 {
        0
    }

    /// What is to live until all rows of a statement that is executed in this context are through.
    fn hold(&self, _context: &Arc<TaskContext>) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// The results of some rows, as many as there are rows. It runs beside others of its kind, and is dropped when the
    /// query is.
    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef>;
}

#[derive(Debug, Clone)]
pub struct CallRows {
    pub columns: Columns,
    /// What the statement is executed in, with the settings of its session.
    pub context: Arc<TaskContext>,
}

impl CallRows {
    pub(crate) fn config(&self) -> &ConfigOptions {
        self.context.session_config().options()
    }
}

/// A function of asap, as it is registered.
#[derive(Debug, Clone)]
pub struct Function {
    declaration: Declaration,
    returns: DataType,
    signature: Signature,
    documentation: Documentation,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Rows(Arc<dyn Rows>),
    Calls(Arc<dyn AsyncCall>),
}

impl Function {
    /// A function that computes rows where it stands.
    pub fn of_rows(declaration: Declaration, returns: DataType, volatility: Volatility, rows: impl Rows) -> Self {
        Self::new(declaration, returns, volatility, Body::Rows(Arc::new(rows)))
    }

    /// A function that makes calls.
    pub fn of_calls(declaration: Declaration, returns: DataType, volatility: Volatility, call: impl AsyncCall) -> Self {
        Self::new(declaration, returns, volatility, Body::Calls(Arc::new(call)))
    }

    fn new(declaration: Declaration, returns: DataType, volatility: Volatility, body: Body) -> Self {
        let (signature, documentation) = (Signature::user_defined(volatility), declaration.documentation());
        Self { declaration, returns, signature, documentation, body }
    }

    /// The function of asap that this is, if it is one.
    pub fn of(function: &ScalarUDF) -> Option<&Self> {
        function.inner().downcast_ref::<Self>()
    }

    /// Whether it has an argument of this name.
    pub fn takes(&self, argument: &str) -> bool {
        self.declaration.arguments.iter().any(|of| of.name() == argument)
    }

    pub(crate) fn call_of(function: &ScalarUDF) -> Option<&Arc<dyn AsyncCall>> {
        match &Self::of(function)?.body {
            Body::Calls(call) => Some(call),
            Body::Rows(_) => None,
        }
    }

    /// Loads and checks what the function needs.
    ///
    /// # Errors
    /// As [`Prepare::prepare`].
    pub fn prepare(&self, config: &ConfigOptions) -> Result<()> {
        match &self.body {
            Body::Rows(rows) => rows.prepare(config),
            Body::Calls(call) => call.prepare(config),
        }
    }

    /// Counts what is remembered of rows in the memory of a query. Calls are told when they are made.
    pub(crate) fn remember_in(&self, pool: &Arc<dyn MemoryPool>) {
        if let Body::Rows(rows) = &self.body {
            rows.remember_in(pool);
        }
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.body, &other.body) {
            (Body::Rows(own), Body::Rows(other)) => own.dyn_eq(other.as_ref() as &dyn Any),
            (Body::Calls(own), Body::Calls(other)) => own.dyn_eq(other.as_ref() as &dyn Any),
            _ => false,
        };
        is_same && self.declaration.name == other.declaration.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.declaration.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.declaration.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.declaration.coerce(given)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        self.declaration.refuse_literals(&given)?;
        Ok(Arc::new(Field::new(self.name(), self.returns.clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Body::Rows(rows) = &self.body else { return Err(misplaced(self.name(), "an expression of its own")) };
        let columns = Columns::new(&args.args, args.number_rows)?;
        match columns.if_constant() {
            Some(one) => {
                let array = rows.compute(&one, &args.config_options)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            None => Ok(ColumnarValue::Array(rows.compute(&columns, &args.config_options)?)),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

pub(crate) fn first_call(expr: &Expr) -> Option<String> {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    let mut found = None;
    // The closure does not fail, so neither does the walk.
    drop(expr.apply(|expr| match expr {
        Expr::ScalarFunction(function) if Function::call_of(&function.func).is_some() => {
            found = Some(function.name().to_string());
            Ok(TreeNodeRecursion::Stop)
        }
        _ => Ok(TreeNodeRecursion::Continue),
    }));
    found
}

pub(crate) fn misplaced(function: &str, place: &str) -> DataFusionError {
    plan_datafusion_err!(
        "{function} makes calls and cannot stand in {place}: call it in a subquery, as in \
         FROM (SELECT *, {function}(…) AS called FROM …), and use its column"
    )
}
