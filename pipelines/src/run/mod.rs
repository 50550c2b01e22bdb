//! A run: one pipeline over one corpus, slice by slice into one table.
//!
//! ```text
//!   list ── rows of the output ── open slices ── plan, check ──▶ slices ▶ ReadSlices ▶ pipeline ▶ write
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
//! | [`ledger`], [`content_hashes`], [`sample`] | which rows are done, by the content of files; the rows of a random sample |
//! | [`input_files`], [`delta_inputs`] | files and Delta tables as input, and what changed in them |
//! | `slice_rows` | how many rows a slice has |
//! | [`plan`] | the pipeline as a plan |
//! | [`output`] | rows become shards, slices become receipts, and commits |
//! | [`work`], [`progress`], [`summary`] | slices in progress, how far they are, the result of the run |
//! | [`retry`], `unusual` | rejected rows that are retried; notes on runs that were probably meant otherwise |
//! | [`errors`] | reasons for the end of a run that have exit codes of their own |
//! | [`estimate`](mod@estimate) | the cost of a run (`--dry-run`) |

pub(crate) mod check;
pub(crate) mod content_hashes;
pub(crate) mod delta_inputs;
pub mod errors;
pub mod estimate;
pub mod input_files;
pub mod job;
pub(crate) mod ledger;
pub mod output;
pub mod plan;
pub mod progress;
pub mod request;
mod request_checks;
pub mod retry;
pub mod sample;
mod slice_rows;
pub mod summary;
pub(crate) mod unusual;
pub mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;

use asap_llm::Usage;
use asap_udfs::llm::failed;

use crate::answers::spent::Spent;
pub use check::check;
pub use errors::RunError;
pub use estimate::{Estimate, estimate};
use job::{Effort, Job};
use output::receipt::Counts;
pub use output::{is_finished, says_finished};
pub use request::{MaxRejects, OnChange, OnSchemaChange, Originals, Part, Request};
pub use summary::Summary;
use work::Work;

/// How long a failed run waits for the answers to calls already sent.
const DRAINING: Duration = Duration::from_secs(60);
/// The share of the grace period for answers to calls already sent.
const DRAINING_IN_GRACE: f64 = 0.3;

/// Receives the progress of a run.
pub trait Observer: Sync {
    /// Work starts on this many rows in this many slices.
    fn begin(&self, rows: u64, slices: u64);
    /// This many more rows are done, with this many tokens in their original chains.
    fn advance(&self, rows: u64, tokens: u64);
    /// The numbers of running and waiting slices, and the usage of calls so far.
    fn slices(&self, running: u64, waiting: u64, usage: Usage);
    /// Slices were committed. The summary covers the run so far.
    fn committed(&self, _: &Summary) {}
    /// The run failed after it started. The summary covers the run until then.
    fn failed(&self, _: &Summary) {}
}

/// Runs a pipeline over the open slices of its input and commits them as they finish. When `stop` completes, no new
/// slice starts, and finished slices are committed.
///
/// # Errors
/// Before any row is read: if a setting, location, table or pipeline is wrong. Afterwards: if a store fails, a budget is
/// spent or an endpoint is down, and [`RunError`] and [`crate::delta::OutcomeUnknown`]. Committed slices stay, and paid
/// answers are kept. Files that cannot be read are not an error: the summary lists them.
pub async fn run(mut request: Request, observer: &dyn Observer, stop: impl Future<Output = ()>) -> Result<Summary> {
    let started = Instant::now();
    tokio::pin!(stop);
    let mut job = tokio::select! {
        job = Job::open(&mut request, Effort::Run) => job?,
        () = &mut stop => return Err(RunError::Interrupted.into()),
    };
    if job.slices.is_empty() && job.staged.is_empty() && !job.new_generation {
        return without_slices(job, &request).await;
    }
    job.output.tidy_rejects().await?;
    let pipeline = job.pipeline(&request).await?;
    let work = begin(&mut job, &request, pipeline, observer).await?;
    let ended = work.run(&mut stop).await;
    if !matches!(ended, Ok(false)) {
        // In-flight requests are paid for, so the run waits for their answers, but not forever.
        let patience = if ended.is_ok() { request.grace.mul_f64(DRAINING_IN_GRACE) } else { DRAINING };
        tokio::select! {
            () = job.llm.drained() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }
    job.summary.interrupted = matches!(ended, Ok(true));
    let settled = job.llm.settle().await.map_err(failed);
    // A failure here comes after the work and must not hide why the work ended.
    let mut tidied = job.output.sweep().await;
    tidied = tidied.and(job.output.tidy_rejects().await).and(job.remember().await).and(settled);
    job.summary.anchor = job.llm.usage();
    job.summary.seconds = started.elapsed().as_secs_f64();
    if let Err(error) = ended.and(tidied) {
        if let Err(error) = job.output.withdraw_finished().await {
            tracing::warn!(%error, "the output may still be marked as finished");
        }
        observer.failed(&job.summary);
        return Err(error);
    }
    let summary = end(job, &request).await?;
    let Summary { counts, slices, slices_left, seconds, .. } = &summary;
    let Counts { rows_in, rows_out, rows_rejected, rows_filtered, .. } = counts;
    tracing::info!(rows_in, rows_out, rows_rejected, rows_filtered, slices, slices_left, seconds, "run ends");
    Ok(summary)
}

/// A run that has no rows to read, and only deletes those of files that are gone.
async fn without_slices(mut job: Job, request: &Request) -> Result<Summary> {
    if !job.gone.is_empty() {
        job.output.check_writable().await?;
    }
    job.summary.nothing_to_do = !job.take_gone_back(request).await?;
    job.output.tidy_rejects().await?;
    job.remember().await?;
    // The run that did the last slice may have died before it marked the output as complete.
    end(job, request).await
}

/// Plans the work, and checks everything that can be checked before a row is read.
async fn begin<'a>(
    job: &'a mut Job,
    request: &'a Request,
    pipeline: LogicalPlan,
    observer: &'a dyn Observer,
) -> Result<Work<'a>> {
    let first = job.slices.first().map_or(0, |slice| slice.group);
    let template = job.template(&pipeline, first).await?;
    job.summary.notes.extend(unusual::prunes_nothing(request, &pipeline));
    let writing = job.writing(&pipeline, template.as_ref(), request)?;
    job.output.check_writable().await?;
    job.llm.spend_from(Arc::new(Spent::today(&job.output.asap_folder)?));
    let (rows, slices) = (job.slices.iter().map(|slice| slice.slice.rows()).sum(), job.slices.len() as u64);
    let (run, to) = (job.output.attempt, &job.summary.to);
    tracing::info!(%run, pipeline = request.name, to, rows, slices, "run begins");
    observer.begin(rows, slices);
    if job.new_generation {
        job.output.begin_generation(&writing.design).await?;
    }
    job.take_gone_back(request).await?;
    Ok(Work::new(job, request, pipeline, template, writing, observer))
}

/// Marks the output as complete if it is, and as incomplete if not.
async fn end(mut job: Job, request: &Request) -> Result<Summary> {
    let Job { output, summary, lacks_half_done_files, .. } = &mut job;
    if summary.slices_left > 0 || !summary.files_failed.is_empty() || *lacks_half_done_files {
        output.withdraw_finished().await?;
    } else {
        // With a limit or a sample, more rows remain. If another run did slices first, that may not be all of the input.
        if request.limit.is_none() && request.sample.is_none() && summary.slices_lost == 0 {
            output.say_inputs_done().await?;
        }
        if request.says_finished {
            output.say_finished(summary.rows_beyond_limit, &summary.of_run()).await?;
        }
    }
    summary.table_version = output.table().map(|log| log.state.version);
    Ok(job.summary)
}
