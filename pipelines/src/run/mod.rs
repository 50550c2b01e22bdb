//! A run: one pipeline over one corpus, committed to one table.
//!
//! ```text
//!   open corpus ── open output ── plan, check ── execute ──┬─ output shards ──────────────┐
//!   (schemas)      (what is done)  (before any row)        └─ reject shards ── commit ── commit
//! ```
//!
//! Nothing is visible before the last commit; whatever fails earlier leaves no file behind.

mod commit;
pub mod estimate;
mod hash;
pub mod plan;
pub mod rows;
pub mod stage;
pub mod summary;
pub mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::{Result, config_err, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use url::Url;

use asap_udfs::Settings;
use asap_udfs::llm::store::AnswerStore;
use asap_udfs::llm::{Llm, Usage};
use asap_udfs::settings::{OnError, Provider};

use crate::answers::{self, Answers};
use crate::corpus::{ColumnMapping, Corpus, Slice};
use crate::location;
use crate::session::session;
use commit::Sink;
pub use estimate::{Estimate, estimate};
pub use summary::Summary;
use table::{Origin, Table};

/// How long a run that ends early waits for the answers to calls that were sent.
const LANDING: Duration = Duration::from_secs(60);

/// What to run.
#[derive(Debug, Clone)]
pub struct Request {
    /// The pipeline's name, for people.
    pub name: String,
    /// The pipeline: one SELECT over `corpus`.
    pub sql: String,
    /// Where rows come from.
    pub from: String,
    /// Where rows go.
    pub to: String,
    /// Which columns are question, cot and answer, where that cannot be recognised.
    pub columns: Option<ColumnMapping>,
    /// The most input rows to read.
    pub limit: Option<u64>,
    /// All settings.
    pub settings: Settings,
}

/// Who watches a run.
pub trait Observer: Sync {
    /// Work begins on so many rows.
    fn begin(&self, rows: u64);
    /// So many more rows, with so many tokens in their original chains, are done.
    fn advance(&self, rows: u64, tokens: u64);
}

/// Runs a pipeline and commits its rows. When `stop` completes first, the run ends without a commit.
///
/// # Errors
/// Wrong settings, locations, files, columns or pipelines before any row is read; afterwards, failures of stores, a
/// spent budget, an endpoint that is down. In each case nothing is committed, and paid answers are kept.
pub async fn run(request: Request, observer: &dyn Observer, stop: impl Future<Output = ()>) -> Result<Summary> {
    let started = Instant::now();
    let to = output_of(&request)?;
    let llm = Llm::new(paid_answers(&request, &to).await?);
    let Job { context, corpus, origin, output, ids, slices } = Job::open(&request, &to, &llm).await?;
    let mut summary = Summary {
        pipeline: request.name.clone(),
        from: request.from.clone(),
        to: location::display(&to),
        notes: corpus.notes.iter().cloned().chain(corpus.delta_notes()).collect(),
        ..Summary::default()
    };
    if slices.is_empty() && output.exists() {
        summary.nothing_to_do = true;
        summary.table_version = output.version();
        return Ok(summary);
    }

    let pipeline = plan_pipeline(&context, &corpus, &slices, &request.sql).await?;
    summary.notes.extend(plan::without_status(&pipeline));
    let physical = context.execute_logical_plan(pipeline).await?.create_physical_plan().await?;
    summary.rows_in = slices.iter().map(|slice| slice.rows).sum();
    observer.begin(summary.rows_in);

    let rows = rows::Rows::new(physical.schema().as_ref(), &corpus.original_names())?;
    let fail_on_reject = request.settings.on_error == OnError::Fail;
    let mut sink = Sink::begin(output, rows, fail_on_reject).await?;
    let stream = execute_stream(Arc::clone(&physical), context.task_ctx())?;
    tokio::pin!(stop);
    let drained = drain(stream, &mut sink, &mut summary, &llm, observer, stop.as_mut()).await;
    if let Err(error) = drained.and_then(|()| is_answered(&llm)) {
        // Calls under way are paid, so their answers are kept; nobody waits for one that never comes.
        tokio::select! {
            () = llm.landed() => {}
            () = tokio::time::sleep(LANDING) => {}
        }
        sink.abandon().await?;
        return Err(error);
    }
    let written = sink.seconds_writing();
    summary.table_version = Some(sink.commit(&origin, &ids).await?);
    summary.rows_filtered = summary.rows_in.saturating_sub(summary.rows_out + summary.rows_rejected);
    summary.anchor = llm.usage();
    summary.seconds_by_part = seconds_by_part(physical.as_ref());
    summary.seconds_by_part.insert("write".to_string(), written);
    summary.seconds = started.elapsed().as_secs_f64();
    Ok(summary)
}

/// Where rows go: a folder apart from where they come from, since the next run would read it as input.
fn output_of(request: &Request) -> Result<Url> {
    let (from, to) = (location::parse(&request.from)?, location::folder(&request.to)?);
    if from.path().ends_with('/') && to.as_str().starts_with(from.as_str()) {
        return config_err!("{} lies in the input {}: choose another output", location::display(&to), request.from);
    }
    Ok(to)
}

/// The answers that were paid for this output, if a language model is asked.
async fn paid_answers(request: &Request, to: &Url) -> Result<Option<Arc<dyn AnswerStore>>> {
    if request.settings.anchor_provider == Provider::Extractive {
        return Ok(None);
    }
    Ok(Some(Arc::new(Answers::open(&answers::beside(to)?).await?)))
}

/// What is read, where it goes, and what is left to do.
struct Job {
    context: SessionContext,
    corpus: Corpus,
    origin: Origin,
    output: Table,
    /// The names of the transactions of the open slices.
    ids: Vec<String>,
    /// The slices that the output does not hold yet.
    slices: Vec<Slice>,
}

impl Job {
    async fn open(request: &Request, to: &Url, llm: &Llm) -> Result<Self> {
        let context = session(request.settings.clone(), llm)?;
        let corpus = Corpus::open(&context.state(), &request.from, request.columns.as_ref()).await?;
        let origin = Origin { pipeline: hash::pipeline(request)?, limit: request.limit };
        let output = Table::open(to.clone()).await?;
        check_origin(&output, &origin, to)?;
        let (ids, slices) = open_slices(&output, &origin, corpus.slices(request.limit)).await?;
        Ok(Self { context, corpus, origin, output, ids, slices })
    }
}

/// The slices that the output does not hold yet, with the names of their transactions.
async fn open_slices(output: &Table, origin: &Origin, slices: Vec<Slice>) -> Result<(Vec<String>, Vec<Slice>)> {
    let mut open = (Vec::new(), Vec::new());
    for slice in slices {
        let id = format!("asap/{}/{}/0-{}", origin.pipeline, hash::file(&slice.file), slice.rows);
        if !output.is_done(&id).await? {
            open.0.push(id);
            open.1.push(slice);
        }
    }
    Ok(open)
}

/// The pipeline over slices of `corpus` as a checked plan that carries the original columns.
async fn plan_pipeline(context: &SessionContext, corpus: &Corpus, slices: &[Slice], sql: &str) -> Result<LogicalPlan> {
    context.register_table(plan::CORPUS, Arc::new(corpus.view_of(slices)?))?;
    let pipeline = context.state().create_logical_plan(sql).await?;
    plan::check(&pipeline)?;
    plan::carry_originals(pipeline, &corpus.original_columns())
}

/// A table is filled by one pipeline.
fn check_origin(output: &Table, origin: &Origin, to: &url::Url) -> Result<()> {
    let Some(held) = output.origin()? else { return Ok(()) };
    let to = location::display(to);
    if held.pipeline != origin.pipeline {
        return exec_err!(
            "{to} was filled by another pipeline, or by this one with other settings, columns or another model: choose \
             another output; with a copy of {to}/_asap/cache in it, what was answered is not paid again"
        );
    }
    if held.limit != origin.limit {
        let say = |limit: Option<u64>| limit.map_or("no --limit".to_string(), |limit| format!("--limit {limit}"));
        return exec_err!(
            "{to} was filled with {}, and this run has {}: choose another output; with a copy of {to}/_asap/cache in it, \
             what was answered is not paid again",
            say(held.limit),
            say(origin.limit)
        );
    }
    Ok(())
}

/// Takes every batch from the pipeline to the shards.
async fn drain(
    mut stream: SendableRecordBatchStream,
    sink: &mut Sink,
    summary: &mut Summary,
    llm: &Llm,
    observer: &dyn Observer,
    mut stop: impl Future<Output = ()> + Unpin,
) -> Result<()> {
    loop {
        let batch = tokio::select! {
            batch = stream.next() => batch,
            () = &mut stop => return exec_err!("interrupted; nothing was committed, the same command starts again"),
        };
        // Also where the pipeline does not show that a row had no call.
        if let Some(error) = llm.budget_refusal() {
            return budget_is_spent(&error, llm.usage());
        }
        let Some(batch) = batch.transpose()? else { return Ok(()) };
        let (rows, tokens_before) = (batch.num_rows() as u64, summary.tokens_in.unwrap_or(0));
        sink.write(&batch, summary).await?;
        observer.advance(rows, summary.tokens_in.unwrap_or(0) - tokens_before);
    }
}

/// Whether the endpoint has ever answered, or was not asked: if all calls failed, the rows are not to blame.
fn is_answered(llm: &Llm) -> Result<()> {
    match llm.last_of_nothing_but_failures() {
        Some(last) => exec_err!(
            "none of {} calls was answered; the last failure: {last}. Nothing is committed: repair that and run the same \
             again",
            llm.usage().calls
        ),
        None => Ok(()),
    }
}

fn budget_is_spent(error: &str, usage: Usage) -> Result<()> {
    let Usage { calls, tokens_in, tokens_out, cost, .. } = usage;
    exec_err!(
        "the budget is spent after {calls} calls ({tokens_in} tokens in, {tokens_out} out, cost {cost:.4}): {error}. Every \
         paid answer is kept and nothing is committed: raise that setting and run the same again"
    )
}

/// Where the time of a finished plan went, in seconds summed over its partitions: reading files, and computing.
fn seconds_by_part(plan: &dyn ExecutionPlan) -> BTreeMap<String, f64> {
    fn visit(plan: &dyn ExecutionPlan, parts: &mut BTreeMap<String, f64>) {
        if let Some(metrics) = plan.metrics() {
            let (part, nanoseconds) = if plan.children().is_empty() {
                ("read", metrics.sum_by_name("time_elapsed_processing").map_or(0, |value| value.as_usize()))
            } else {
                ("compute", metrics.elapsed_compute().unwrap_or(0))
            };
            *parts.entry(part.to_string()).or_default() += Duration::from_nanos(nanoseconds as u64).as_secs_f64();
        }
        for child in plan.children() {
            visit(child.as_ref(), parts);
        }
    }
    let mut parts = BTreeMap::new();
    visit(plan, &mut parts);
    parts
}
