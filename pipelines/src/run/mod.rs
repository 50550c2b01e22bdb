//! A run: one pipeline over one corpus, slice by slice into one table.
//!
//! ```text
//!   list ── rows of the output ── open slices ── plan, check ──▶ slices ▶ ReadSlices ▶ pipeline ▶ WriteShards
//!   (files)  (from its log)        (footers of    (before any                                      │ receipts
//!                                   open files)    row is read)                                    ▼
//!                                     rejects: stale ones out ◀── output: slices done ◀── rejects: add
//! ```
//!
//! A slice is a range of rows of one file. It is done when the log of the output records it, in the commit that also
//! adds its rows. Until then nothing of it is visible, so a process that dies, comes late or comes twice does no harm.
//! Only the driver commits, from receipts.
//!
//! | module | holds |
//! |---|---|
//! | [`request`] | what to run |
//! | [`job`] | the state before the first row: existing tables and open slices |
//! | [`input`] | files and Delta tables as input, and what changed in them |
//! | `slice_rows` | how many rows a slice has |
//! | [`plan`] | the pipeline as a plan |
//! | [`output`] | rows become shards, slices become receipts, and commits |
//! | [`work`], [`progress`], [`summary`] | slices in progress, how far they are, the result of the run |
//! | [`retry`] | rejected rows that are retried |
//! | [`estimate`] | the cost of a run (`--dry-run`) |

pub mod estimate;
pub mod input;
pub mod job;
pub mod output;
pub mod plan;
pub mod progress;
pub mod request;
pub mod retry;
mod slice_rows;
pub mod summary;
pub mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::{DataFusionError, Result, exec_err};

use asap_udfs::llm::{Llm, Usage};

use crate::answers::spent::Spent;
use crate::location;
pub use crate::run::input::delta_inputs::OtherSnapshot;
pub use estimate::{Estimate, estimate};
use job::{Effort, Job};
pub use output::{Superseded, is_finished, says_finished};
pub use request::{MaxRejects, OnChange, OnSchemaChange, Originals, Part, Request};
pub use summary::Summary;
pub use work::{AllRejected, TooManyRejects};
use work::{Ended, Work};

/// How long a failed run waits for the answers to calls already sent.
const LANDING: Duration = Duration::from_secs(60);
/// The share of the grace period for answers to calls already sent.
const LANDING_IN_GRACE: f64 = 0.3;

#[derive(Debug, thiserror::Error)]
#[error("interrupted before a row was read; run the same command to start again")]
pub struct Interrupted;

/// Receives the progress of a run.
pub trait Observer: Sync {
    /// Work starts on this many rows in this many slices.
    fn begin(&self, rows: u64, slices: u64);
    /// This many more rows are done, with this many tokens in their original chains.
    fn advance(&self, rows: u64, tokens: u64);
    /// The numbers of running and waiting slices, and the usage of calls so far.
    fn slices(&self, running: u64, waiting: u64, usage: Usage);
    /// Slices were committed. The summary covers the run so far.
    fn committed(&self, summary: &Summary);
    /// The run failed after it started. The summary covers the run until then.
    fn failed(&self, _: &Summary) {}
}

/// Runs a pipeline over the open slices of its input and commits them as they finish. When `stop` completes, no new
/// slice starts, and finished slices are committed.
///
/// # Errors
/// Wrong settings, locations, tables or pipelines before any row is read. Afterwards, failures of stores, a spent
/// budget, an endpoint that is down, [`TooManyRejects`], [`AllRejected`], [`crate::delta::OutcomeUnknown`],
/// [`OtherSnapshot`]. Committed slices stay, and paid answers are kept. Files that cannot be read are not an error: the
/// summary lists them.
pub async fn run(request: Request, observer: &dyn Observer, stop: impl Future<Output = ()>) -> Result<Summary> {
    let started = Instant::now();
    tokio::pin!(stop);
    let mut job = tokio::select! {
        job = Job::open(&request, Effort::Run) => job?,
        () = &mut stop => return Err(DataFusionError::External(Box::new(Interrupted))),
    };
    let mut summary = Summary {
        pipeline: request.name.clone(),
        from: request.from.clone(),
        to: location::display(job.output.url()),
        slices_left: job.left,
        rows_beyond_limit: job.beyond,
        files_failed: std::mem::take(&mut job.failures),
        files_ignored: std::mem::take(&mut job.ignored),
        notes: std::mem::take(&mut job.notes),
        table_version: job.output.table().map(|log| log.state().version),
        began_empty: job.anew || job.output.ledger().rows == 0,
        ..Summary::default()
    };
    let has_slices = !job.slices.is_empty() || !job.staged.is_empty() || job.anew;
    if !has_slices && !job.gone.is_empty() {
        job.output.check_writable().await?;
    }
    summary.nothing_to_do = !has_slices && !job.take_gone_back(&request).await?;
    job.output.tidy_rejects().await?;
    if !has_slices {
        summary.notes.append(&mut job.notes);
        job.remember().await?;
        // The run that did the last slice may have died before it marked the output as complete.
        say_finished(&mut job, &request, &summary).await?;
        summary.table_version = job.output.table().map(|log| log.state().version);
        return Ok(summary);
    }

    let pipeline = job.pipeline(&request).await?;
    let first = job.slices.first().map_or(0, |slice| slice.group);
    let template = job.template(&pipeline, first).await?;
    let (design, writing) = job.design(&pipeline, template.as_ref(), &request)?;
    summary.notes.append(&mut job.notes);
    summary.anchored_by.clone_from(&design.provenance.anchored_by);
    summary.scored_by.clone_from(&design.provenance.scored_by);
    job.output.check_writable().await?;
    job.llm.spend_from(Arc::new(Spent::today(job.output.beside())?));
    let (rows, slices) = (job.slices.iter().map(|slice| slice.slice.rows()).sum(), job.slices.len() as u64);
    tracing::info!(run = %job.output.attempt(), pipeline = request.name, to = summary.to, rows, slices, "run begins");
    observer.begin(rows, slices);
    if job.anew {
        job.output.begin_generation(&design).await?;
    }
    job.take_gone_back(&request).await?;
    summary.notes.append(&mut job.notes);

    let work = Work::new(&mut job, &request, pipeline, template, &design, writing);
    let ended = work.run(&mut summary, observer, stop).await;
    if !matches!(ended, Ended::Through) {
        // In-flight requests are paid for, so the run waits for their answers, but not forever.
        let patience = match ended {
            Ended::Stopped => request.grace.mul_f64(LANDING_IN_GRACE),
            _ => LANDING,
        };
        tokio::select! {
            () = job.llm.landed() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }
    summary.interrupted = matches!(ended, Ended::Stopped);
    let settled = job.llm.settle().await.map_err(DataFusionError::from);
    // A failure here comes after the work and must not hide why the work ended.
    let mut tidied = job.output.sweep().await;
    tidied = tidied.and(job.output.tidy_rejects().await).and(job.remember().await).and(settled);
    summary.anchor = job.llm.usage();
    summary.seconds = started.elapsed().as_secs_f64();
    let failure = match ended {
        Ended::Failed(error) => Some(error),
        _ => tidied.err(),
    };
    if let Some(error) = failure {
        if let Err(error) = job.output.withdraw_finished().await {
            tracing::warn!(%error, "the output may still be marked as finished");
        }
        observer.failed(&summary);
        return Err(error);
    }
    say_finished(&mut job, &request, &summary).await?;
    summary.table_version = job.output.table().map(|log| log.state().version);
    let Summary { counts, slices, slices_left, seconds, .. } = &summary;
    tracing::info!(
        rows_in = counts.rows_in,
        rows_out = counts.rows_out,
        rows_rejected = counts.rows_rejected,
        rows_filtered = counts.rows_filtered,
        slices,
        slices_left,
        seconds,
        "run ends"
    );
    Ok(summary)
}

async fn say_finished(job: &mut Job, request: &Request, summary: &Summary) -> Result<()> {
    if summary.slices_left > 0 || !summary.files_failed.is_empty() || job.lacks_half_done_files {
        return job.output.withdraw_finished().await;
    }
    // With a limit, more rows remain. If another run did slices first, that may not be all of the input.
    if request.limit.is_none() && summary.slices_lost == 0 {
        job.output.say_inputs_done().await?;
    }
    match request.says_finished {
        true => job.output.say_finished(summary.rows_beyond_limit, &summary.of_run()).await,
        false => Ok(()),
    }
}

/// Checks that failed rows may be committed as rejects. They may not if no call of the run was answered, or if the
/// endpoint is down or denies access: then the rows are not the cause.
fn is_answered(llm: &Llm) -> Result<()> {
    if let Some(why) = llm.unanswered() {
        return exec_err!("{why}. Nothing more is committed: fix that and run the same command again");
    }
    match llm.verdict() {
        Some(verdict) => exec_err!("{verdict}"),
        None => Ok(()),
    }
}

fn budget_is_spent(error: &str, usage: Usage) -> Result<()> {
    let Usage { calls, tokens_in, tokens_out, cost, .. } = usage;
    exec_err!(
        "the budget is spent after {calls} calls ({tokens_in} tokens in, {tokens_out} out, cost {cost:.4}): {error}. Every \
         paid answer is kept, and rows without an answer are not committed: raise that setting and run the same command again"
    )
}
