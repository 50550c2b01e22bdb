//! The shared part of functions that request a direct thought, a pruning or an answer.

use std::any::Any;
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Volatility;
use futures::future::{BoxFuture, try_join_all};

use crate::anchor::{Anchored, Anchorer, Spent};
use crate::call_metrics::CallMetrics;
use crate::columns::Args;
use crate::declaration::{Argument, Declaration};
use crate::function::{Asking, AsyncCall, Body, CallRows, Function};
use crate::llm::failed;
use crate::needs::SessionModels;
use crate::output::{self, column};
use crate::settings::{OnError, Settings};
use asap_llm::{LlmError, Statement, Usage};

type Asked<'a, T> = BoxFuture<'a, asap_llm::Result<Anchored<T>>>;

/// A function whose rows the anchorer answers with a `T`.
pub(super) struct AskedFunction<T> {
    pub name: &'static str,
    pub about: &'static str,
    pub arguments: &'static [Argument],
    pub example: &'static str,
    pub needs_language_model: bool,
    /// Requests one row. An error ends the query; a failure of the row is its outcome.
    pub ask: for<'a> fn(&'a dyn Anchorer, Args<'a>, &'a Arc<Statement>) -> Asked<'a, T>,
    pub array: fn(&[Anchored<T>]) -> Result<ArrayRef>,
}

struct ByAnchorer<T> {
    session: SessionModels,
    function: AskedFunction<T>,
}

impl<T: Send + 'static> AskedFunction<T> {
    pub(super) fn of(self, session: &SessionModels) -> Result<Function> {
        let Self { name, about, arguments, example, array, .. } = self;
        let returns = array(&[])?.data_type().clone();
        let body = Body::Calls(Arc::new(ByAnchorer { session: session.clone(), function: self }));
        Ok(Function::new(Declaration { name, about, arguments, example }, returns, Volatility::Volatile, body))
    }
}

impl<T> ByAnchorer<T> {
    fn anchorer(&self, config: &ConfigOptions) -> Result<Arc<dyn Anchorer>> {
        match self.function.needs_language_model {
            true => self.session.anchorers.with_language_model(config),
            false => self.session.anchorers.of(config),
        }
    }
}

#[async_trait]
impl<T: Send + 'static> AsyncCall for ByAnchorer<T> {
    fn prepare(&self, config: &ConfigOptions) -> Result<()> {
        self.anchorer(config).map(drop)
    }

    fn window(&self, config: &ConfigOptions) -> usize {
        // Without an anchorer, planning already refused the query.
        self.anchorer(config).map_or(1, |anchorer| anchorer.window())
    }

    fn asking(&self) -> Asking<'_> {
        Asking { is_of_language_model: true, ..Asking::default() }
    }

    fn hold(&self, context: &Arc<TaskContext>) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.session.anchorers.llm().statement(context))
    }

    async fn call(&self, rows: &CallRows, metrics: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let anchorer = self.anchorer(rows.config())?;
        let statement = self.session.anchorers.llm().statement(&rows.context);
        let asked = (0..rows.columns.rows()).map(|row| {
            let asking = (self.function.ask)(&*anchorer, rows.columns.row(row), &statement);
            async move {
                let row = asking.await?;
                record(metrics, &row);
                Ok::<_, LlmError>(row)
            }
        });
        let asked = try_join_all(asked).await.map_err(failed)?;
        self.session.count_remembered(&rows.context);
        check(self.function.name, Settings::of(rows.config())?, &asked)?;
        (self.function.array)(&asked)
    }
}

fn record<T>(metrics: &CallMetrics, row: &Anchored<T>) {
    let Usage { calls, cache_hits, retries, tokens_in, tokens_out, .. } = row.spent.own;
    metrics.failed.add(usize::from(row.outcome.is_err()));
    metrics.calls.add(calls as usize);
    metrics.cache_hits.add(cache_hits as usize);
    metrics.retries.add(retries as usize);
    metrics.add_tokens(tokens_in as usize, tokens_out as usize);
}

/// Fails the query for the first row without a result if `asap.on_error` is `fail`.
fn check<T>(function: &str, settings: &Settings, rows: &[Anchored<T>]) -> Result<()> {
    match rows.iter().find_map(|row| row.outcome.as_ref().err()) {
        Some(refusal) if settings.on_error == OnError::Fail => {
            let (status, error, setting) = (refusal.status, &refusal.error, Setting("asap.on_error"));
            exec_err!("{function}: {status}: {error} ({setting} is 'fail')")
        }
        _ => Ok(()),
    }
}

/// Returns structs of a function's own columns, then status, error, tokens_in, tokens_out and cached.
pub(super) fn structs<T>(mut columns: Vec<(&str, ArrayRef)>, rows: &[Anchored<T>]) -> Result<ArrayRef> {
    let tokens = |tokens: fn(&Spent) -> u64| column(rows.iter().map(|row| i64::try_from(tokens(&row.spent)).ok()));
    columns.extend([
        ("status", column(rows.iter().map(|row| Some(row.status())))?),
        ("error", column(rows.iter().map(Anchored::error))?),
        ("tokens_in", tokens(|spent| spent.tokens_in)?),
        ("tokens_out", tokens(|spent| spent.tokens_out)?),
        ("cached", column(rows.iter().map(|row| Some(row.spent.is_cached())))?),
    ]);
    output::structs(columns, None)
}
