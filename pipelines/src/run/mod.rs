//! A run: one pipeline over one corpus, slice by slice into one table.
//!
//! ```text
//!   list ── what the output holds ── open slices ── plan, check ──▶ slices ▶ ReadSlices ▶ pipeline ▶ WriteShards
//!   (files)  (one look at its log)   (footers of     (before any                                      │ receipts
//!                                     open files)      row is read)                                    ▼
//!                                        rejects: stale ones out ◀── output: slices done ◀── rejects: add
//! ```
//!
//! A slice is a range of rows of one file. It is done when the output's log says so, in the commit that also adds its rows; until
//! then nothing of it is visible, and whoever dies, comes late or comes twice changes nothing of what is. Only the driver
//! commits, from receipts.
//!
//! | module | holds |
//! |---|---|
//! | [`request`] | what a run is asked to do |
//! | [`job`] | what is there and what is open, before the first row |
//! | [`files`], [`contents`] | which files are new, done or changed |
//! | [`identity`], [`provenance`] | what a table is filled with, by content and as people call it |
//! | [`inputs`] | Delta tables as input, version by version |
//! | [`ledger`] | which slices are done |
//! | [`plan`], [`rows`] | the pipeline as a plan, and what becomes of its rows |
//! | [`write_shards`], [`shards`], [`receipt`] | rows become shards, and a slice a receipt |
//! | [`work`], [`progress`], [`summary`] | slices under way, how far they are, what the run did |
//! | [`estimate`] | what a run would take (`--dry-run`) |
//! | [`design`] | what the tables are made with |
//! | [`output`], [`rejects`], [`take_back`], [`retry`] | commits, and what they replace |

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

/// How long a run that ends early waits for the answers to calls that were sent, if it was not asked to be quicker.
const LANDING: Duration = Duration::from_secs(60);
/// How much of the time that a run has to end is left for answers to calls that were sent.
const LANDING_IN_GRACE: f64 = 0.3;

/// A run was asked to end before it read a row.
#[derive(Debug, thiserror::Error)]
#[error("interrupted before a row was read; the same command starts again")]
pub struct Interrupted;

/// Who watches a run.
pub trait Observer: Sync {
    /// Work begins on so many rows, in so many slices.
    fn begin(&self, rows: u64, slices: u64);
    /// So many more rows, with so many tokens in their original chains, are done.
    fn advance(&self, rows: u64, tokens: u64);
    /// So many slices are under way, and so many not begun; what calls took until now.
    fn slices(&self, running: u64, waiting: u64, usage: Usage);
    /// Slices were committed; what the run did until now.
    fn committed(&self, summary: &Summary);
    /// The run fails after it began; what it did until then.
    fn failed(&self, _: &Summary) {}
}

/// Runs a pipeline over the open slices of its input and commits them as they are finished. When `stop` completes, no slice is begun
/// any more, and what is finished is committed.
///
/// # Errors
/// Wrong settings, locations, tables or pipelines before any row is read; afterwards, failures of stores, a spent budget, an
/// endpoint that is down, [`TooManyRejects`], [`AllRejected`], [`crate::log::OutcomeUnknown`], [`OtherSnapshot`]. Slices that were committed stay, and paid
/// answers are kept. Files that cannot be read are no error of the run, but of the summary.
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
        // The run that did the last slice may have died before it said so.
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
        // Calls under way are paid, so their answers are kept; nobody waits for one that never comes.
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
    // What fails here fails after the work, and must not hide why that ended.
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
            tracing::warn!(%error, "the output may still say that it is finished");
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
    // Beyond a limit there are more rows; what another run did first may not be all of it.
    if request.limit.is_none() && summary.slices_lost == 0 {
        job.output.say_inputs_done().await?;
    }
    match request.says_finished {
        true => job.output.say_finished(summary.rows_beyond_limit, &summary.of_run()).await,
        false => Ok(()),
    }
}

/// Whether rows that failed may be committed as failed: not where no call of the run was answered, or the endpoint is down or
/// denies now, for then the rows are not to blame.
fn is_answered(llm: &Llm) -> Result<()> {
    if let Some(why) = llm.unanswered() {
        return exec_err!("{why}. Nothing more is committed: repair that and run the same again");
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
         paid answer is kept and what it was not enough for is not committed: raise that setting and run the same again"
    )
}
