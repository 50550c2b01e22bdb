//! The work of a run: slices in progress, and their commits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use asap_llm::{LlmError, Standing, Statement};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use serde_json::json;
use tokio::task::JoinSet;

use super::errors::RunError;
use super::job::Job;
use super::progress::Reached;
use super::request::Request;
use super::{Observer, retry};
use crate::corpus::{FileFailure, ReadSlices};
use crate::run::ledger::{Before, OpenSlice, SliceName};
use crate::run::output::delete_files::Deletion;
use crate::run::output::finished_slice::Finished;
use crate::run::output::receipt::{Counts, Receipt};
use crate::run::output::sampling;
use crate::run::output::write_shards::Writing;
use tracing::Instrument;

const TICK: Duration = Duration::from_millis(200);
/// Slices younger than this are committed without checking that their shards still exist.
const YOUNG: Duration = Duration::from_secs(1);
/// The share of the grace period for the rows that were already read.
const DRAINING: f64 = 0.5;
/// The share for writing the finished rows. The rest is for commits and for answers to calls already sent.
const CUTTING: f64 = 0.2;

/// A run with a language model stops if its first N rows are all rejected.
const ALL_REJECTED: u64 = 200;

pub struct Work<'a> {
    job: &'a mut Job,
    request: &'a Request,
    pipeline: LogicalPlan,
    writing: Arc<Writing>,
    observer: &'a dyn Observer,
    context: Arc<TaskContext>,
    _statement: Arc<Statement>,
    waiting: Vec<OpenSlice>,
    /// The plan over the files of a group, and the number of the group.
    template: (usize, Arc<dyn ExecutionPlan>),
    running: JoinSet<(OpenSlice, Instant, Result<Receipt>)>,
    rows_running: u64,
    finished: Vec<Finished>,
    /// Files whose slices are committed together, with the number of their unfinished slices.
    replaced: HashMap<String, usize>,
    failed: HashSet<String>,
    done_by_others: u64,
    begun_at: Instant,
    committed_at: Instant,
    reached: Reached,
}

impl<'a> Work<'a> {
    pub fn new(
        job: &'a mut Job,
        request: &'a Request,
        pipeline: LogicalPlan,
        template: Arc<dyn ExecutionPlan>,
        writing: Writing,
        observer: &'a dyn Observer,
    ) -> Self {
        let mut waiting = std::mem::take(&mut job.slices);
        waiting.reverse();
        let first = waiting.last().map_or(0, |slice| slice.group);
        let mut replaced = HashMap::new();
        for slice in waiting.iter().filter(|slice| slice.replaces()) {
            *replaced.entry(slice.name.path.clone()).or_default() += 1;
        }
        let finished = std::mem::take(&mut job.staged);
        for staged in &finished {
            replaced.entry(staged.slice.path.clone()).or_default();
        }
        job.context.state_ref().write().config_mut().set_extension(Arc::clone(&writing.stopping));
        let context = job.context.task_ctx();
        Self {
            _statement: job.llm.statement(&context),
            context,
            job,
            request,
            pipeline,
            writing: Arc::new(writing),
            observer,
            waiting,
            template: (first, template),
            running: JoinSet::new(),
            rows_running: 0,
            finished,
            replaced,
            failed: HashSet::new(),
            done_by_others: 0,
            begun_at: Instant::now(),
            committed_at: Instant::now(),
            reached: Reached::default(),
        }
    }

    /// Works until every slice was tried, the run is stopped, or it fails. Commits the finished slices. Returns whether
    /// the run was stopped; failed files are not an error.
    pub async fn run(mut self, mut stop: impl Future<Output = ()> + Unpin) -> Result<bool> {
        let mut ended = self.drive(&mut stop).await;
        self.running.shutdown().await;
        if let Err(error) = &ended {
            self.leave_out_what_is_in_doubt(error);
            let Reached { rows, rejected, .. } = self.writing.progress.reached();
            self.job.summary.read = Some((rows, rejected));
        }
        if let Err(error) = self.commit(true).await
            && ended.is_ok()
        {
            ended = Err(error);
        }
        self.job.summary.slices_left += self.waiting.len() as u64;
        self.job.summary.slices_lost += self.done_by_others;
        let Self { writing, request, job, .. } = &mut self;
        job.summary.notes.extend(writing.progress.repeated_question());
        let is_scored = job.summary.scored_by.is_some();
        job.summary.notes.extend(writing.progress.notes_of_model(&request.settings, is_scored));
        ended
    }

    /// Returns whether the run was stopped.
    async fn drive(&mut self, stop: &mut (impl Future<Output = ()> + Unpin)) -> Result<bool> {
        let mut tick = tokio::time::interval(TICK);
        let grace = self.request.grace;
        let mut deadline: Option<tokio::time::Instant> = None;
        let mut is_cut = false;
        loop {
            while deadline.is_none() && self.has_room() && !self.waiting.is_empty() {
                self.begin_next().await?;
            }
            if self.running.is_empty() {
                return Ok(deadline.is_some());
            }
            let at_deadline = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(done) = self.running.join_next() => {
                    let (slice, begun_at, receipt) = done.map_err(|error| DataFusionError::External(Box::new(error)))?;
                    self.take(slice, begun_at, receipt).await?;
                }
                _ = tick.tick() => self.look()?,
                () = &mut *stop, if deadline.is_none() => {
                    self.writing.stopping.drain();
                    deadline = Some(tokio::time::Instant::now() + grace.mul_f64(DRAINING));
                }
                () = at_deadline => {
                    if is_cut {
                        self.job.summary.slices_left += self.running.len() as u64;
                        return Ok(true);
                    }
                    is_cut = true;
                    self.writing.stopping.cut();
                    deadline = Some(tokio::time::Instant::now() + grace.mul_f64(CUTTING));
                }
            }
            self.look()?;
            if self.committed_at.elapsed() >= self.request.commit_every {
                self.commit(false).await?;
            }
        }
    }

    /// Whether another slice may start. Local work takes one slice more than there are cores, so that the last rows of
    /// one do not leave a core idle. With an endpoint, another slice may also start while the running slices have fewer
    /// rows than twice the maximum number of in-flight requests.
    fn has_room(&self) -> bool {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let settings = &self.request.settings;
        let is_asked = settings.anchor_provider.is_endpoint();
        let rows = if is_asked { 2 * settings.anchor_max_concurrent_requests.0 as u64 } else { 0 };
        self.running.len() <= cores || self.rows_running < rows
    }

    /// Whether another run has committed rows of a slice, as of the last commit.
    fn is_done_by_another(&self, slice: &OpenSlice) -> bool {
        let SliceName { path, version, start, end, .. } = &slice.name;
        let held = self.job.output.ledger.file(path).filter(|held| held.version == *version);
        slice.before == Before::Open && held.is_some_and(|held| held.overlaps(*start, *end))
    }

    async fn begin_next(&mut self) -> Result<()> {
        let Some(slice) = self.waiting.pop() else { return Ok(()) };
        if self.failed.contains(&slice.name.path) {
            return Ok(());
        }
        if self.is_done_by_another(&slice) {
            self.done_by_others += 1;
            return Ok(());
        }
        if self.template.0 != slice.group {
            self.template = (slice.group, self.job.template(&self.pipeline, slice.group).await?);
        }
        let plan = read_slice(&self.template.1, &slice)?;
        self.rows_running += slice.slice.rows();
        // Started here and not in its task, so that slices of one row group are claimed in order.
        let rows = plan.execute(0, Arc::clone(&self.context))?;
        let (writing, begun_at) = (Arc::clone(&self.writing), Instant::now());
        self.running.spawn(async move {
            let span = tracing::info_span!("slice", slice = %slice.name);
            let receipt = writing.write(plan.as_ref(), rows, &slice).instrument(span).await;
            (slice, begun_at, receipt)
        });
        Ok(())
    }

    async fn take(&mut self, open: OpenSlice, begun_at: Instant, receipt: Result<Receipt>) -> Result<()> {
        self.rows_running -= open.slice.rows();
        let path = open.name.path.clone();
        let mut receipt = match receipt {
            Ok(receipt) => receipt,
            Err(error) => return self.take_failure(&open, error),
        };
        // A refused call may not be visible in the rows, so check the budget itself.
        if let Some(why) = self.job.llm.budget_refusal() {
            return Err(RunError::BudgetSpent { usage: self.job.llm.usage(), why }.into());
        }
        let slice = receipt.slice.parse::<SliceName>()?;
        let is_whole = slice == open.name;
        if let Before::Done(before) = open.before
            && let Some(tried) = open.slice.only.as_ref().filter(|_| is_whole)
        {
            receipt.rejects.extend(retry::carry(&self.job.output, &slice, before, tried).await?);
        }
        let Counts { rows_in, rows_out, rows_rejected, rows_filtered, .. } = receipt.counts;
        tracing::info!(%slice, rows_in, rows_out, rows_rejected, rows_filtered, "slice is written");
        if !is_whole {
            // The run is stopping, and the remaining rows stay open.
            self.job.summary.slices_left += 1;
            if slice.rows() == 0 || matches!(open.before, Before::Done(_)) {
                return Ok(());
            }
        } else if let Some(left) = self.replaced.get_mut(&path) {
            *left -= 1;
        }
        if !(open.replaces() && self.failed.contains(&path)) {
            let (attempt, begun_at) = (self.job.output.attempt, Some(begun_at));
            self.finished.push(Finished { slice, before: open.before, attempt, receipt, begun_at });
        }
        Ok(())
    }

    /// Leaves out a file that cannot be read; other errors end the run.
    fn take_failure(&mut self, open: &OpenSlice, error: DataFusionError) -> Result<()> {
        let Some(failure) = FileFailure::of(&error) else { return Err(error) };
        let path = &open.name.path;
        self.job.summary.slices_left += 1;
        if self.failed.insert(path.clone()) {
            tracing::info!(file = path, error = failure.error, "file failed");
            self.job.summary.files_failed.push(failure.clone());
        }
        if open.replaces() {
            self.finished.retain(|finished| finished.slice.path != *path);
        }
        Ok(())
    }

    /// Reports the progress, and ends the run if too many rows are rejected.
    fn look(&mut self) -> Result<()> {
        let reached = self.writing.progress.reached();
        self.observer.advance(reached.rows - self.reached.rows, reached.tokens - self.reached.tokens);
        self.reached = reached;
        self.observer.slices(self.running.len() as u64, self.waiting.len() as u64, self.job.llm.usage());
        let is_last = self.running.is_empty() && self.waiting.is_empty();
        let Reached { rejected, rows, .. } = reached;
        let refusal = match self.request.max_rejects {
            _ if rows >= ALL_REJECTED && self.may_be_useless() => {
                RunError::AllRejected { rows, reasons: self.reasons() }
            }
            Some(most) if most.is_exceeded(rejected, rows, is_last) => {
                RunError::TooManyRejects { rejected, rows, most, reasons: self.reasons() }
            }
            _ => return Ok(()),
        };
        self.finished.clear();
        Err(refusal.into())
    }

    /// Whether a language model is called and every row was rejected. Retried rows may all fail again.
    fn may_be_useless(&self) -> bool {
        let reached = self.writing.progress.reached();
        reached.rejected == reached.rows && self.request.retry_rejects.is_none() && self.job.llm.usage().calls > 0
    }

    fn reasons(&self) -> String {
        let mut by_status: BTreeMap<&str, u64> = BTreeMap::new();
        for (status, rows) in self.finished.iter().flat_map(|finished| &finished.receipt.counts.rejects) {
            *by_status.entry(status).or_default() += rows;
        }
        let reasons: Vec<String> = by_status.iter().map(|(status, rows)| format!("{status} {rows}")).collect();
        if reasons.is_empty() { "in slices that are not finished".to_string() } else { reasons.join(", ") }
    }

    /// After a failure, drops slices with rejects: the failure may have caused these rejects.
    fn leave_out_what_is_in_doubt(&mut self, error: &DataFusionError) {
        if self.job.llm.usage().calls > 0 {
            tracing::debug!(%error, "slices with rejects are not committed");
            self.finished.retain(|finished| finished.receipt.counts.rows_rejected == 0);
        }
    }

    async fn commit(&mut self, is_last: bool) -> Result<()> {
        // Failed rows become rejects only if the endpoint is not the cause.
        let is_doubtful = match self.job.llm.standing() {
            Standing::Failing(error) => return Err(DataFusionError::External(Box::new(LlmError::from(error)))),
            standing => standing == Standing::Doubtful,
        };
        if !is_last && (is_doubtful || self.may_be_useless()) {
            return Ok(());
        }
        self.committed_at = Instant::now();
        let finished = self.with_their_shards().await?;
        let (together, alone): (Vec<_>, Vec<_>) =
            finished.into_iter().partition(|finished| !self.replaced.contains_key(&finished.slice.path));
        let mut by_file: HashMap<String, Vec<Finished>> = HashMap::new();
        for finished in alone {
            by_file.entry(finished.slice.path.clone()).or_default().push(finished);
        }
        self.commit_group(together, &mut Deletion::default()).await?;
        for (path, mut slices) in by_file {
            if self.replaced.get(&path) == Some(&0) && !self.failed.contains(&path) {
                let mut deletion = Deletion::new(&self.job.output.ledger, [path.as_str()]);
                let of_file = slices.first().map(|finished| finished.slice.clone());
                self.commit_group(slices, &mut deletion).await?;
                if let Some(slice) = of_file {
                    self.job.output.unstage(&slice).await?;
                }
            } else {
                self.job.output.stage(&mut slices).await?;
                if is_last {
                    self.job.summary.slices_left += slices.len() as u64;
                } else {
                    self.finished.append(&mut slices);
                }
            }
        }
        Ok(())
    }

    /// The finished slices, except those whose shards were deleted before their commit. Those stay open.
    async fn with_their_shards(&mut self) -> Result<Vec<Finished>> {
        let finished = std::mem::take(&mut self.finished);
        let age = (2 * self.request.commit_every).max(YOUNG);
        let (mut there, gone) = self.job.output.by_shards(finished, age).await?;
        for slice in gone.iter().map(|finished| &finished.slice) {
            tracing::warn!(%slice, "the shards of a slice were deleted before its commit");
            if self.replaced.contains_key(&slice.path) {
                self.failed.insert(slice.path.clone());
            }
        }
        let before = there.len();
        there.retain(|finished| {
            !self.failed.contains(&finished.slice.path) || !self.replaced.contains_key(&finished.slice.path)
        });
        self.job.summary.slices_deleted += gone.len() as u64;
        self.job.summary.slices_left += (gone.len() + before - there.len()) as u64;
        Ok(there)
    }

    async fn commit_group(&mut self, finished: Vec<Finished>, deletion: &mut Deletion) -> Result<()> {
        if finished.is_empty() {
            return Ok(());
        }
        let Job { summary, output, llm, .. } = &mut *self.job;
        summary.anchor = llm.usage();
        summary.seconds = self.begun_at.elapsed().as_secs_f64();
        let run = output.attempt.to_string();
        let mut info = json!({ "run": run, "pipeline": self.request.name, "summary": summary.of_run() });
        sampling::record(&mut info, llm.defaults());
        let committed = output.commit(&self.writing.design, &finished, deletion, &info).await?;
        summary.table_version = committed.version.or(summary.table_version);
        summary.notes.extend(committed.notes);
        for Finished { slice, receipt, .. } in &finished {
            if committed.lost.contains(slice) {
                summary.slices_lost += 1;
                continue;
            }
            summary.slices += 1;
            summary.counts.add(&receipt.counts);
            for (part, seconds) in &receipt.seconds {
                *summary.seconds_by_part.entry(part.clone()).or_default() += seconds;
            }
        }
        let lost = committed.lost.len();
        tracing::info!(version = committed.version, slices = finished.len() - lost, lost, "slices are committed");
        self.observer.committed(summary);
        Ok(())
    }
}

/// Applies a template to a slice, the only partition of the plan.
pub(crate) fn read_slice(template: &Arc<dyn ExecutionPlan>, open: &OpenSlice) -> Result<Arc<dyn ExecutionPlan>> {
    let filled = Arc::clone(template).transform_up(|node| match node.downcast_ref::<ReadSlices>() {
        Some(reader) => Ok(Transformed::yes(Arc::new(reader.over(open.slice.clone())) as _)),
        None => Ok(Transformed::no(node)),
    })?;
    Ok(filled.data)
}
