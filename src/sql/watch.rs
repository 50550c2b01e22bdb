//! How far a query is: the rows that its scans have read, out of those that they know of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use asap_pipelines::run::Observer;
use asap_udfs::llm::Llm;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::prelude::SessionContext;

use crate::progress::Bar;

/// A query that takes less than this needs no bar.
const SHORT: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(200);

/// The plan that a session executes, found as the last rule of its optimizer.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    plan: Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>,
}

impl Watch {
    /// The session, watched.
    pub fn over(&self, context: SessionContext) -> SessionContext {
        let session_id = context.session_id();
        let builder = context.into_state_builder().with_session_id(session_id);
        SessionContext::new_with_state(builder.with_physical_optimizer_rule(Arc::new(self.clone())).build())
    }

    /// Tells on standard error how far the query is, for as long as it is waited for.
    pub async fn tell(&self, llm: &Llm, is_quiet: bool) -> std::convert::Infallible {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = None;
        tokio::time::sleep(SHORT).await;
        let bar = Bar::new("reading", is_quiet);
        bar.begin(self.rows().1, 0);
        let mut told = 0;
        loop {
            let (read, _) = self.rows();
            bar.advance(read.saturating_sub(told), 0);
            told = told.max(read);
            bar.slices(0, 0, llm.usage());
            tokio::time::sleep(TICK).await;
        }
    }

    /// The rows that were read, and all rows that are known.
    fn rows(&self) -> (u64, u64) {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        plan.map_or((0, 0), |plan| rows(plan.as_ref()))
    }
}

fn rows(plan: &dyn ExecutionPlan) -> (u64, u64) {
    let children = plan.children();
    if !children.is_empty() {
        let each = children.iter().map(|child| rows(child.as_ref()));
        return each.fold((0, 0), |(read, all), (more, of)| (read + more, all + of));
    }
    let read = plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0);
    let all =
        StatisticsContext::new().compute(plan, &StatisticsArgs::new()).map(|statistics| match statistics.num_rows {
            Precision::Exact(rows) | Precision::Inexact(rows) => rows,
            Precision::Absent => 0,
        });
    (read as u64, all.unwrap_or(0) as u64)
}

impl PhysicalOptimizerRule for Watch {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&plan));
        Ok(plan)
    }

    fn name(&self) -> &str {
        "watch"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
