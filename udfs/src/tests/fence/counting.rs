//! Functions that count what they compute, and sessions with them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use asap_udfs::call_metrics::CallMetrics;
use asap_udfs::declaration::{Arg, Argument, Declaration};
use asap_udfs::function::{AsyncCall, Body, CallRows, Function};
use asap_udfs::{Settings, plan};
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio::sync::OnceCell;

pub(super) const WINDOW: usize = 64;

/// A function of one integer that computes equal arguments once, unless it is volatile.
#[derive(Debug, Clone)]
pub(crate) struct Counting {
    name: &'static str,
    volatility: Volatility,
    value: Returned,
    calls: Arc<AtomicUsize>,
    known: Arc<Mutex<HashMap<i64, Arc<OnceCell<i64>>>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Returned {
    Next,
    Twice,
    Pair,
    Unlucky,
}

fn pair() -> Fields {
    Fields::from(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)])
}

impl Returned {
    fn data_type(self) -> DataType {
        match self {
            Returned::Pair => DataType::Struct(pair()),
            _ => DataType::Int64,
        }
    }

    fn number(self, x: i64) -> Result<i64> {
        match self {
            Returned::Next => Ok(x + 1),
            Returned::Twice => Ok(2 * x),
            Returned::Pair => Ok(x),
            Returned::Unlucky if x == 13 => exec_err!("13 is unlucky"),
            Returned::Unlucky => Ok(x + 1),
        }
    }

    fn array(self, numbers: Vec<Option<i64>>) -> ArrayRef {
        let column: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
        match self {
            Returned::Pair => {
                let negative = numbers.into_iter().map(|x| x.map(|x| -x)).collect::<Int64Array>();
                Arc::new(StructArray::new(pair(), vec![column, Arc::new(negative)], None))
            }
            _ => column,
        }
    }
}

impl Counting {
    pub(crate) fn new(name: &'static str, value: Returned, volatility: Volatility) -> Self {
        Self { name, volatility, value, calls: Arc::default(), known: Arc::default() }
    }

    fn function(&self) -> ScalarUDF {
        const ARGUMENTS: &[Argument] = &[Argument::new("x", Arg::Int, "A number.")];
        let declaration = Declaration { name: self.name, about: "", arguments: ARGUMENTS, example: "" };
        let body = Body::Calls(Arc::new(self.clone()));
        ScalarUDF::from(Function::new(declaration, self.value.data_type(), self.volatility, body))
    }

    fn plain(&self) -> ScalarUDF {
        let value = self.value;
        let compute = move |args: &[ColumnarValue]| {
            let array = args[0].to_array(1)?;
            let numbers = array.as_primitive::<Int64Type>().iter().map(|x| x.map(|x| value.number(x)).transpose());
            Ok(ColumnarValue::Array(value.array(numbers.collect::<Result<_>>()?)))
        };
        create_udf(self.name, vec![DataType::Int64], value.data_type(), Volatility::Immutable, Arc::new(compute))
    }

    async fn one(&self, x: i64, metrics: &Arc<CallMetrics>) -> Result<i64> {
        if self.volatility == Volatility::Volatile {
            return self.compute(x, metrics).await;
        }
        let known = Arc::clone(self.known.lock().unwrap().entry(x).or_default());
        let mut is_hit = true;
        let compute = || {
            is_hit = false;
            self.compute(x, metrics)
        };
        let value = *known.get_or_try_init(compute).await?;
        metrics.cache_hits.add(usize::from(is_hit));
        Ok(value)
    }

    async fn compute(&self, x: i64, metrics: &CallMetrics) -> Result<i64> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        metrics.calls.add(1);
        metrics.add_tokens(10, 2);
        // Later rows often finish before earlier ones.
        for _ in 0..(x * 7) % 13 {
            tokio::task::yield_now().await;
        }
        self.value.number(x)
    }
}

#[async_trait]
impl AsyncCall for Counting {
    fn window(&self, _: &ConfigOptions) -> usize {
        WINDOW
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let rows = (0..rows.columns.rows()).map(|row| async move {
            match rows.columns.row(row).int(0) {
                Ok(x) => self.one(x, metrics).await.map(Some),
                Err(_) => Ok(None),
            }
        });
        Ok(self.value.array(futures::future::try_join_all(rows).await?))
    }
}

/// The functions of the tests: f and g are stable, s returns a struct, v and w are volatile, u fails for 13.
pub(super) struct Functions([Counting; 6]);

impl Functions {
    pub(super) fn new() -> Self {
        Self([
            Counting::new("f", Returned::Next, Volatility::Stable),
            Counting::new("g", Returned::Twice, Volatility::Stable),
            Counting::new("s", Returned::Pair, Volatility::Stable),
            Counting::new("v", Returned::Next, Volatility::Volatile),
            Counting::new("w", Returned::Pair, Volatility::Volatile),
            Counting::new("u", Returned::Unlucky, Volatility::Stable),
        ])
    }

    /// Returns the number of calls of each of these functions.
    pub(super) fn calls<const N: usize>(&self, names: [&str; N]) -> [usize; N] {
        let called =
            |name: &str| self.0.iter().filter(|f| f.name == name).map(|f| f.calls.load(Ordering::SeqCst)).sum();
        names.map(called)
    }

    pub(super) fn session(&self, config: SessionConfig) -> SessionContext {
        let context = session(config, RuntimeEnvBuilder::new());
        self.0.iter().for_each(|f| context.register_udf(f.function()));
        context
    }

    pub(crate) fn plain_session(&self) -> SessionContext {
        let context = SessionContext::new();
        self.0.iter().for_each(|f| context.register_udf(f.plain()));
        context
    }
}

pub(super) fn session(config: SessionConfig, runtime: RuntimeEnvBuilder) -> SessionContext {
    let config = config.with_option_extension(Settings::default());
    let runtime = runtime.build_arc().unwrap();
    let builder = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    SessionContext::new_with_state(plan::install(builder).build())
}

/// Tables t (x from 1 to 1000, y = x mod 10) and t2 (x from 1 to 1000).
pub(super) async fn tables(context: &SessionContext) {
    rows(context, "CREATE TABLE t AS SELECT value AS x, value % 10 AS y FROM generate_series(1, 1000)").await;
    rows(context, "CREATE TABLE t2 AS SELECT value AS x, value % 10 AS y FROM generate_series(1, 1000)").await;
}

pub(crate) async fn try_rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in context.sql(sql).await?.collect().await? {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            rows.push(values.collect::<Vec<_>>().join(" | "));
        }
    }
    Ok(rows)
}

pub(super) async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    try_rows(context, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}
