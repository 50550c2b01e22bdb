//! The cost of calls, as EXPLAIN ANALYZE shows it.

use std::time::Instant;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time};

#[derive(Debug)]
pub struct CallMetrics {
    calls: Count,
    cache_hits: Count,
    retries: Count,
    failed: Count,
    tokens_in: Count,
    tokens_out: Count,
    time_waited: Time,
    rows_in_flight: Gauge,
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

    pub(crate) fn add_calls(&self, calls: usize) {
        self.calls.add(calls);
    }

    pub(crate) fn add_cache_hits(&self, rows: usize) {
        self.cache_hits.add(rows);
    }

    pub(crate) fn add_retries(&self, retries: usize) {
        self.retries.add(retries);
    }

    pub(crate) fn add_failed(&self, rows: usize) {
        self.failed.add(rows);
    }

    pub(crate) fn add_tokens(&self, read: usize, written: usize) {
        self.tokens_in.add(read);
        self.tokens_out.add(written);
    }

    pub(crate) fn waited_since(&self, start: Instant) {
        self.time_waited.add_duration(start.elapsed());
    }

    /// Records the number of rows in flight; the metric shows the maximum.
    pub(crate) fn in_flight(&self, rows: usize) {
        self.rows_in_flight.set_max(rows);
    }
}
