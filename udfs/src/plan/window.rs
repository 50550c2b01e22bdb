//! Rows in flight through the calls of a fence.
//!
//! ```text
//!   input ──batch──▶ cut ──piece──▶ ┌ task ┐ ┌ task ┐ ┌ task ┐ ──in order──▶ output
//!     ▲                             └──────┘ └──────┘ └──────┘
//!     └── pulled while the pieces hold fewer rows than the window
//! ```
//!
//! Each piece is a separate task. A call must continue while its rows are not polled, because it may hold something
//! that a call of another operator waits for (a permit, the answer to an equal request). Dropping the stream aborts its
//! tasks.

use std::any::Any;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::future::{BoxFuture, try_join_all};
use futures::stream::FuturesOrdered;
use futures::{FutureExt, Stream, StreamExt};

use super::planned::PlannedCall;
use crate::call_metrics::CallMetrics;
use crate::columns::Columns;
use crate::function::CallRows;

/// Minimum number of pieces in a window. Small pieces keep few rows waiting for the slowest row of their piece.
const PIECES: usize = 8;

#[derive(Debug)]
pub(super) struct Level {
    pub calls: Vec<PlannedCall>,
    pub schema: SchemaRef,
    pub context: Arc<TaskContext>,
    pub metrics: Arc<CallMetrics>,
    pub baseline: BaselineMetrics,
}

pub(super) struct InFlight {
    level: Arc<Level>,
    input: Option<SendableRecordBatchStream>,
    rest: Option<RecordBatch>,
    begun: VecDeque<RecordBatch>,
    pieces: FuturesOrdered<BoxFuture<'static, Result<Finished>>>,
    rows: usize,
    window: usize,
    memory: MemoryReservation,
    waiting_since: Option<Instant>,
    _held: Vec<Arc<dyn Any + Send + Sync>>,
}

struct Finished {
    batch: RecordBatch,
    _results: MemoryReservation,
}

impl InFlight {
    pub(crate) fn new(level: Level, input: SendableRecordBatchStream, partition: usize) -> Self {
        let context = &level.context;
        let windows = level.calls.iter().map(|call| call.call.window(context.session_config().options()));
        Self {
            window: windows.min().unwrap_or(1).max(1),
            memory: MemoryConsumer::new(format!("FenceExec[{partition}]")).register(context.memory_pool()),
            _held: level.calls.iter().filter_map(|call| call.call.hold(context)).collect(),
            level: Arc::new(level),
            input: Some(input),
            rest: None,
            begun: VecDeque::new(),
            pieces: FuturesOrdered::new(),
            rows: 0,
            waiting_since: None,
        }
    }

    fn fill(&mut self, cx: &mut Context<'_>) -> Result<()> {
        loop {
            if let Some(rest) = self.rest.take() {
                let rows = rest.num_rows().min(self.window.div_ceil(PIECES));
                if self.rows + rows > self.window {
                    self.rest = Some(rest);
                    return Ok(());
                }
                self.begin(rest, rows);
                continue;
            }
            let Some(input) = self.input.as_mut().filter(|_| self.rows < self.window) else { return Ok(()) };
            match input.poll_next_unpin(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(None) => self.input = None,
                Poll::Ready(Some(batch)) => {
                    self.rest = Some(batch?).filter(|batch| batch.num_rows() > 0);
                    self.account()?;
                }
            }
        }
    }

    /// Updates the memory reservation. Pieces of a batch, and batches that an operator cut from one, share buffers.
    fn account(&mut self) -> Result<()> {
        let mut counter = RecordBatchMemoryCounter::new();
        for batch in self.begun.iter().chain(&self.rest) {
            counter.count_batch(batch);
        }
        self.memory.try_resize(counter.memory_usage())
    }

    fn begin(&mut self, batch: RecordBatch, rows: usize) {
        let piece = batch.slice(0, rows);
        let others = batch.num_rows() - rows;
        self.rest = (others > 0).then(|| batch.slice(rows, others));
        self.begun.push_back(piece.clone());
        self.rows += rows;
        self.level.metrics.rows_in_flight.set_max(self.rows);
        let task = SpawnedTask::spawn(call_all(Arc::clone(&self.level), piece, self.memory.new_empty()));
        let finished = task.join_unwind().map(|finished| {
            finished.unwrap_or_else(|_| exec_err!("the calls of a query were stopped: the runtime is shutting down"))
        });
        self.pieces.push_back(finished.boxed());
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if let Err(error) = self.fill(cx) {
            return Poll::Ready(Some(Err(error)));
        }
        match self.pieces.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(finished))) => {
                self.rows -= finished.batch.num_rows();
                self.begun.pop_front();
                Poll::Ready(Some(self.account().map(|()| finished.batch)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            Poll::Ready(None) if self.input.is_none() => Poll::Ready(None),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Stream for InFlight {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.poll_piece(cx);
        if polled.is_pending() {
            if !self.pieces.is_empty() {
                self.waiting_since.get_or_insert_with(Instant::now);
            }
            return Poll::Pending;
        }
        if let Some(start) = self.waiting_since.take() {
            self.level.metrics.time_waited.add_elapsed(start);
        }
        if matches!(polled, Poll::Ready(Some(Err(_)))) {
            // A failed query must not pay for more calls.
            self.input = None;
            self.rest = None;
            self.begun.clear();
            self.pieces = FuturesOrdered::new();
        }
        self.level.baseline.record_poll(polled)
    }
}

impl RecordBatchStream for InFlight {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.level.schema)
    }
}

/// Makes all calls of a level for one piece concurrently. A call waits for another that has a higher reach and equal
/// arguments.
async fn call_all(level: Arc<Level>, batch: RecordBatch, memory: MemoryReservation) -> Result<Finished> {
    let waits = |call: &PlannedCall| {
        let reach = |call: &PlannedCall| call.call.asking().reach;
        let reads_further = |other: &PlannedCall| reach(other) > reach(call) && other.args == call.args;
        level.calls.iter().any(reads_further)
    };
    let mut results: Vec<(usize, ArrayRef)> = Vec::with_capacity(level.calls.len());
    for is_later in [false, true] {
        let places: Vec<usize> =
            (0..level.calls.len()).filter(|place| waits(&level.calls[*place]) == is_later).collect();
        let made = try_join_all(places.iter().map(|place| call_one(&level, &level.calls[*place], &batch))).await?;
        results.extend(places.into_iter().zip(made));
    }
    results.sort_unstable_by_key(|(place, _)| *place);
    let results: Vec<ArrayRef> = results.into_iter().map(|(_, result)| result).collect();
    memory.try_grow(results.iter().map(|result| result.get_array_memory_size()).sum())?;
    let columns = batch.columns().iter().cloned().chain(results).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&level.schema), columns, &options)?;
    Ok(Finished { batch, _results: memory })
}

async fn call_one(level: &Level, call: &PlannedCall, batch: &RecordBatch) -> Result<ArrayRef> {
    let rows = batch.num_rows();
    let columns = {
        let _timer = level.baseline.elapsed_compute().timer();
        let values = call.args.iter().map(|argument| argument.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        Columns::new(&values, rows)?
    };
    let result = call.call.call(&CallRows { columns, context: Arc::clone(&level.context) }, &level.metrics).await?;
    if result.len() != rows {
        return Err(exec_datafusion_err!("expected {rows} results from {}, found {}", call.expression, result.len()));
    }
    Ok(result)
}
