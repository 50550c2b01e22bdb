//! The cost of calls, as EXPLAIN ANALYZE shows it.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time};

#[derive(Debug)]
pub struct CallMetrics {
    pub(crate) calls: Count,
    pub(crate) cache_hits: Count,
    pub(crate) retries: Count,
    pub(crate) failed: Count,
    tokens_in: Count,
    tokens_out: Count,
    pub(crate) time_waited: Time,
    /// The metric shows the maximum.
    pub(crate) rows_in_flight: Gauge,
}

impl CallMetrics {
    /// The name of the metric of the time in which rows were in flight and none was ready to output.
    pub const TIME_WAITED: &'static str = "time_waited";

    pub fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            calls: counter("calls"),
            cache_hits: counter("cache_hits"),
            retries: counter("retries"),
            failed: counter("failed"),
            tokens_in: counter("tokens_in"),
            tokens_out: counter("tokens_out"),
            time_waited: MetricBuilder::new(metrics).subset_time(Self::TIME_WAITED, partition),
            rows_in_flight: MetricBuilder::new(metrics).gauge("rows_in_flight", partition),
        }
    }

    pub(crate) fn add_tokens(&self, read: usize, written: usize) {
        self.tokens_in.add(read);
        self.tokens_out.add(written);
    }
}
