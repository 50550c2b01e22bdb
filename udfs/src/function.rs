//! Registered SQL functions: their declarations, needs and computations.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use asap_lm::backend::Asks;
use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, ScalarValue, config_datafusion_err, plan_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::call_metrics::CallMetrics;
use crate::columns::Columns;
use crate::declaration::{Argument, Declaration};
use crate::needs::SessionModels;

/// A function that computes each row in place.
pub(crate) trait InPlace: Send + Sync {
    /// Loads and checks what the function needs, so that a problem is one clear error before any row is read.
    fn prepare(&self, config: &ConfigOptions) -> Result<()>;

    /// Counts the caches of row results in the memory pool of a planned query.
    fn remember_in(&self, pool: &Arc<dyn MemoryPool>);

    /// Computes all rows. An error fails the query; a bad row gives NULL instead.
    fn compute(&self, columns: &Columns, config: &ConfigOptions) -> Result<ArrayRef>;
}

/// A function that computes outside of the engine: its rows wait for a model or a server.
#[async_trait]
pub trait AsyncCall: Send + Sync {
    /// Loads and checks what the function needs, so that a problem is one clear error before any row is read or any call
    /// is paid for.
    fn prepare(&self, config: &ConfigOptions) -> Result<()> {
        self.asking().scorer.map_or(Ok(()), |session| session.models.scorer(config).map(drop))
    }

    fn asking(&self) -> Asking<'_> {
        Asking::default()
    }

    /// Returns how many rows of one partition may be in flight: started and not output yet. More rows than parallel
    /// calls keep a slow row from holding up the rows after it.
    fn window(&self, _: &ConfigOptions) -> usize {
        self.asking().rows_in_flight
    }

    /// Returns what must live until all rows of the statement that runs in this context are done.
    fn hold(&self, context: &Arc<TaskContext>) -> Option<Arc<dyn Any + Send + Sync>> {
        // The same settings find the scoring model again. If they find no model, the first call reports why.
        let scorer = self.asking().scorer?.models.scorer(context.session_config().options()).ok()?;
        Some(scorer)
    }

    /// Computes one result per row. Calls run concurrently with others of the same function, and are dropped with the
    /// query.
    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef>;
}

/// What the calls of a function ask of models: by default nothing.
#[derive(Default)]
pub struct Asking<'a> {
    /// Whether they go to a language model, which may cost money.
    pub is_of_language_model: bool,
    /// Whether the encoder of `asap.compressor.model` reads texts.
    pub is_of_encoder: bool,
    /// The session whose scoring model they ask; None if they ask no scoring model.
    pub scorer: Option<&'a SessionModels>,
    /// What they ask of the scoring model besides log-probabilities of tokens.
    pub of_scorer: Asks,
    /// Whether scores decide what they read next. Then a count of their tokens with constant scores is not exact.
    pub reads_by_scores: bool,
    /// How many rows of one partition may be in flight, unless the settings decide.
    pub rows_in_flight: usize,
    /// How much of their arguments they read. Among calls with equal arguments, those with a lower reach wait for those
    /// with a higher reach, and find their results in the cache.
    pub reach: u8,
}

impl fmt::Debug for dyn AsyncCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsyncCall")
    }
}

#[derive(Debug, Clone)]
pub struct CallRows {
    pub columns: Columns,
    pub context: Arc<TaskContext>,
}

impl CallRows {
    pub(crate) fn config(&self) -> &ConfigOptions {
        self.context.session_config().options()
    }
}

#[derive(Clone)]
pub struct Function {
    declaration: Declaration,
    returns: DataType,
    signature: Signature,
    documentation: Documentation,
    body: Body,
}

#[derive(Clone)]
pub(crate) enum Body {
    InPlace(Arc<dyn InPlace>),
    Calls(Arc<dyn AsyncCall>),
}

impl Function {
    pub(crate) fn new(declaration: Declaration, returns: DataType, volatility: Volatility, body: Body) -> Self {
        let (signature, documentation) = (Signature::user_defined(volatility), declaration.documentation());
        Self { declaration, returns, signature, documentation, body }
    }

    /// Creates a function whose calls give equal results for equal arguments within a query.
    pub(crate) fn of_calls(declaration: Declaration, returns: DataType, call: impl AsyncCall + 'static) -> Self {
        Self::new(declaration, returns, Volatility::Stable, Body::Calls(Arc::new(call)))
    }

    pub fn of(function: &ScalarUDF) -> Option<&Self> {
        function.inner().downcast_ref::<Self>()
    }

    /// Returns its arguments, in order.
    pub fn arguments(&self) -> &'static [Argument] {
        self.declaration.arguments
    }

    pub fn takes(&self, argument: &str) -> bool {
        self.declaration.arguments.iter().any(|of| of.name == argument)
    }

    pub(crate) fn call_of(function: &ScalarUDF) -> Option<&Arc<dyn AsyncCall>> {
        match &Self::of(function)?.body {
            Body::Calls(call) => Some(call),
            Body::InPlace(_) => None,
        }
    }

    pub(crate) fn prepare(&self, config: &ConfigOptions) -> Result<()> {
        match &self.body {
            Body::InPlace(rows) => rows.prepare(config),
            Body::Calls(call) => {
                call.prepare(config)?;
                let Asking { scorer, of_scorer, .. } = call.asking();
                let Some(session) = scorer.filter(|_| of_scorer != Asks::default()) else { return Ok(()) };
                let name = self.declaration.name;
                let answers = session.models.scorer(config)?.check(of_scorer);
                answers.map_err(|error| config_datafusion_err!("{name}: {error}"))
            }
        }
    }

    /// Counts the caches of row results in the memory of a query. Calls get their memory pool when they run.
    pub(crate) fn remember_in(&self, pool: &Arc<dyn MemoryPool>) {
        if let Body::InPlace(rows) = &self.body {
            rows.remember_in(pool);
        }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.declaration.name)
    }
}

/// A registered function equals its clones: the engine compares functions to merge equal calls.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        match (&self.body, &other.body) {
            (Body::InPlace(own), Body::InPlace(other)) => Arc::ptr_eq(own, other),
            (Body::Calls(own), Body::Calls(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
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
        let Body::InPlace(rows) = &self.body else { return Err(misplaced(self.name(), "a standalone expression")) };
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

/// Returns the name of the function if the expression itself is a call.
pub(crate) fn called(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::ScalarFunction(function) if Function::call_of(&function.func).is_some() => Some(function.name()),
        _ => None,
    }
}

pub(crate) fn first_call(expr: &Expr) -> Option<String> {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    let mut found = None;
    // The closure cannot fail, so the walk cannot fail.
    drop(expr.apply(|expr| {
        found = called(expr).map(str::to_string);
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    }));
    found
}

pub(crate) fn misplaced(function: &str, place: &str) -> DataFusionError {
    plan_datafusion_err!(
        "{function} makes calls and cannot be used in {place}: call it in a subquery, as in \
         FROM (SELECT *, {function}(…) AS called FROM …), and use its column"
    )
}
