//! Progress of a query: the rows that its scans have read, of all rows that they know of.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use asap_llm::Llm;
use asap_pipelines::run::Observer;
use asap_udfs::plan::FenceExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::progress::{Bar, SHORT};

const TICK: Duration = Duration::from_millis(200);

/// The plan that a session executes, captured by the last rule of its optimizer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    plan: Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>,
}

impl Watch {
    pub(crate) fn over(&self, context: SessionContext) -> SessionContext {
        let session_id = context.session_id();
        let builder = context.into_state_builder().with_session_id(session_id);
        SessionContext::new_with_state(builder.with_physical_optimizer_rule(Arc::new(self.clone())).build())
    }

    /// Reports the progress of queries planned from now on, in a separate task: a query may compute for long where it
    /// is polled.
    pub(crate) fn report(&self, llm: &Llm, is_quiet: bool) -> JoinHandle<Infallible> {
        self.plan.lock().take();
        let (watch, llm) = (self.clone(), llm.clone());
        tokio::spawn(async move {
            if is_quiet {
                std::future::pending::<()>().await;
            }
            loop {
                tokio::time::sleep(SHORT).await;
                let Some(plan) = watch.plan.lock().clone() else { continue };
                let bar = Bar::new("reading", is_quiet);
                bar.begin(all_rows(plan.as_ref()), 0);
                let mut shown = 0;
                while watch.plan.lock().as_ref().is_some_and(|current| Arc::ptr_eq(current, &plan)) {
                    let read = rows_read(plan.as_ref());
                    bar.advance(read.saturating_sub(shown), 0);
                    shown = shown.max(read);
                    bar.slices(0, 0, llm.usage());
                    tokio::time::sleep(TICK).await;
                }
            }
        })
    }
}

/// Ends what [`Watch::report`] started.
pub(crate) async fn end(reporting: JoinHandle<Infallible>) {
    reporting.abort();
    // An aborted task has no result.
    let _ = reporting.await;
}

/// Returns the processed rows. A row may still wait for a score or a call after reading.
fn rows_read(plan: &dyn ExecutionPlan) -> u64 {
    let through = || plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0) as u64;
    let children = plan.children();
    if children.is_empty() {
        return through();
    }
    let read = children.iter().map(|child| rows_read(child.as_ref())).sum();
    if plan.name() == FenceExec::static_name() { through().min(read) } else { read }
}

/// Returns all rows that the scans know of. This computes statistics of the whole plan, so it is called once.
fn all_rows(plan: &dyn ExecutionPlan) -> u64 {
    let children = plan.children();
    if !children.is_empty() {
        return children.iter().map(|child| all_rows(child.as_ref())).sum();
    }
    let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new());
    statistics.map_or(0, |statistics| match statistics.num_rows {
        Precision::Exact(rows) | Precision::Inexact(rows) => rows as u64,
        Precision::Absent => 0,
    })
}

impl PhysicalOptimizerRule for Watch {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        *self.plan.lock() = Some(Arc::clone(&plan));
        Ok(plan)
    }

    fn name(&self) -> &str {
        "watch"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
