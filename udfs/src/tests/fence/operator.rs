//! The operator: rows in flight, the cost of a query with a limit, and the effects of a dropped query.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asap_udfs::call_metrics::CallMetrics;
use asap_udfs::declaration::{Arg, Argument, Declaration};
use asap_udfs::function::{AsyncCall, Body, CallRows, Function};
use async_trait::async_trait;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use tokio::sync::Semaphore;

use crate::tests::fence::counting::{Functions, WINDOW, rows, session};

/// A function whose calls wait until the test lets them through; it counts the rows that wait.
struct Held {
    begun: AtomicUsize,
    waiting: AtomicUsize,
    gate: Semaphore,
    length: usize,
}

impl Held {
    fn new(length: usize) -> Arc<Self> {
        Arc::new(Self { begun: 0.into(), waiting: 0.into(), gate: Semaphore::new(0), length })
    }

    /// Polls for rows until the window is full; none is let through.
    async fn fill(&self, stream: &mut SendableRecordBatchStream) {
        while self.waiting.load(Ordering::SeqCst) < WINDOW {
            assert!(futures::poll!(stream.next()).is_pending());
            tokio::task::yield_now().await;
        }
    }

    async fn until_waiting(&self, rows: usize) {
        while self.waiting.load(Ordering::SeqCst) != rows {
            tokio::task::yield_now().await;
        }
    }
}

struct Waiting<'a>(&'a Held, usize);

impl<'a> Waiting<'a> {
    fn new(held: &'a Held, rows: usize) -> Self {
        held.begun.fetch_add(rows, Ordering::SeqCst);
        held.waiting.fetch_add(rows, Ordering::SeqCst);
        Self(held, rows)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(self.1, Ordering::SeqCst);
    }
}

struct Call(Arc<Held>);

#[async_trait]
impl AsyncCall for Call {
    fn window(&self, _: &ConfigOptions) -> usize {
        WINDOW
    }

    async fn call(&self, rows: &CallRows, _: &Arc<CallMetrics>) -> Result<ArrayRef> {
        let rows = &rows.columns;
        let waiting = Waiting::new(&self.0, rows.rows());
        self.0.gate.acquire_many(rows.rows() as u32).await.unwrap().forget();
        drop(waiting);
        let text = |row| rows.row(row).int(0).ok().map(|_| "x".repeat(self.0.length));
        Ok(Arc::new((0..rows.rows()).map(text).collect::<StringArray>()))
    }
}

fn config(batch: usize) -> SessionConfig {
    SessionConfig::new().with_target_partitions(1).with_batch_size(batch)
}

async fn held_session(held: &Arc<Held>, batch: usize, pool: Option<Arc<dyn MemoryPool>>) -> SessionContext {
    const ARGUMENTS: &[Argument] = &[Argument::new("x", Arg::Int, "A number.")];
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(pool) = pool {
        runtime = runtime.with_memory_pool(pool);
    }
    let context = session(config(batch), runtime);
    let declaration = Declaration { name: "held", about: "", arguments: ARGUMENTS, example: "" };
    let body = Body::Calls(Arc::new(Call(Arc::clone(held))));
    let function = Function::new(declaration, DataType::Utf8, Volatility::Volatile, body);
    context.register_udf(ScalarUDF::from(function));
    rows(&context, "CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 1000)").await;
    context
}

async fn stream(context: &SessionContext, query: &str) -> SendableRecordBatchStream {
    context.sql(query).await.unwrap().execute_stream().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_rows_are_in_flight_as_may_be_however_batches_are_cut() {
    for batch in [1, 8, 50, 1000] {
        let held = Held::new(1);
        let context = held_session(&held, batch, None).await;
        let stream = stream(&context, "SELECT x, held(x) AS h FROM t").await;
        let collected = tokio::spawn(stream.collect::<Vec<_>>());
        // Batches of 50 are cut into six pieces of 8 and one of 2; one more piece of 8 fits.
        held.until_waiting(if batch == 50 { 58 } else { WINDOW }).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
            assert!(held.waiting.load(Ordering::SeqCst) <= WINDOW);
        }
        held.gate.add_permits(1000);
        let batches = collected.await.unwrap().into_iter().collect::<Result<Vec<_>>>().unwrap();
        let numbers = batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert_eq!(numbers.collect::<Vec<_>>(), (1..=1000).collect::<Vec<_>>());
        assert_eq!(held.begun.load(Ordering::SeqCst), 1000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_on_while_no_one_asks_for_their_rows() {
    let held = Held::new(1);
    let context = held_session(&held, 8, None).await;
    let mut stream = stream(&context, "SELECT held(x) FROM t").await;
    held.fill(&mut stream).await;
    held.gate.add_permits(WINDOW);
    held.until_waiting(0).await;
    assert_eq!(held.begun.load(Ordering::SeqCst), WINDOW);
    assert_eq!(stream.next().await.unwrap().unwrap().num_rows(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_query_drops_its_calls() {
    let held = Held::new(1);
    let context = held_session(&held, 8, None).await;
    let mut stream = stream(&context, "SELECT held(x) FROM t").await;
    held.fill(&mut stream).await;
    drop(stream);
    held.until_waiting(0).await;
    held.gate.add_permits(1000);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(held.begun.load(Ordering::SeqCst), WINDOW);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_in_flight_is_accounted_for_and_given_back() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
    let held = Held::new(100);
    let context = held_session(&held, 8, Some(Arc::clone(&pool))).await;
    let mut stream = stream(&context, "SELECT held(x) FROM t").await;
    held.fill(&mut stream).await;
    // Eight batches of eight numbers.
    assert!(pool.reserved() >= 8 * 8 * 8, "{}", pool.reserved());
    held.gate.add_permits(1000);
    let mut most = 0;
    while let Some(batch) = stream.next().await {
        batch.unwrap();
        most = most.max(pool.reserved());
    }
    assert!(most >= 8 * 100, "{most}");
    drop(stream);
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buffer_that_batches_share_is_accounted_for_once() {
    let numbers = Int64Array::from_iter_values(1..=1000);
    let size = numbers.get_buffer_memory_size();
    let whole = RecordBatch::try_from_iter([("x", Arc::new(numbers) as ArrayRef)]).unwrap();
    let cut: Vec<_> = (0..1000).step_by(8).map(|start| whole.slice(start, 8)).collect();
    // Cut as by a file's reader, by a limit, and by the operator itself.
    for batches in [cut, vec![whole]] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let held = Held::new(1);
        let context = held_session(&held, 1000, Some(Arc::clone(&pool))).await;
        let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
        context.register_table("shared", Arc::new(table)).unwrap();
        let mut stream = stream(&context, "SELECT held(x) FROM shared").await;
        held.fill(&mut stream).await;
        assert_eq!(pool.reserved(), size);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_little_memory_fails_the_query_and_names_the_operator() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
    let held = Held::new(1 << 18);
    let context = held_session(&held, 8, Some(Arc::clone(&pool))).await;
    held.gate.add_permits(1000);
    let error = context.sql("SELECT held(x) FROM t").await.unwrap().collect().await.unwrap_err();
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    assert!(error.to_string().contains("FenceExec"), "{error}");
    held.until_waiting(0).await;
    while pool.reserved() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_pays_for_the_window_and_a_batch_more_at_most() {
    for batch in [8, 64, 1000] {
        let functions = Functions::new();
        let context = functions.session(config(batch));
        rows(&context, "CREATE TABLE t AS SELECT value AS x FROM generate_series(1, 100000)").await;
        let found = rows(&context, "SELECT x FROM t WHERE f(x) > 5 LIMIT 10").await;
        assert_eq!(found, (5..15).map(|x: i64| x.to_string()).collect::<Vec<_>>());
        // The query needs fourteen rows, but a filter outputs whole batches and may collect a batch first.
        let most = 14 + WINDOW + batch.min(WINDOW);
        let [calls] = functions.calls(["f"]);
        assert!(calls <= most, "{calls} of at most {most}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_analyze_shows_what_calls_cost() {
    let functions = Functions::new();
    let context = functions.session(config(8));
    rows(&context, "CREATE TABLE t AS SELECT value AS x, value % 10 AS y FROM generate_series(1, 100)").await;
    let plan = rows(&context, "EXPLAIN ANALYZE SELECT f(x), g(y) FROM t").await.concat();
    let shown = plan.lines().find(|line| line.contains("FenceExec")).unwrap();
    for metric in ["f(x@0) as __call_1", "g(y@1) as __call_2", "output_rows=100", "calls=110", "cache_hits=90"] {
        assert!(shown.contains(metric), "{metric}: {shown}");
    }
    for metric in ["retries=0", "tokens_in=1.10 K", "tokens_out=220", "time_waited=", "rows_in_flight=64"] {
        assert!(shown.contains(metric), "{metric}: {shown}");
    }
}
