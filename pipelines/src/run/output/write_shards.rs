//! Writes the rows of a slice to shards of the output and of the rejects, and returns the receipt.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use asap_kernels::front_end::Setting;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use futures::StreamExt;
use object_store::path::Path;
use url::Url;

use asap_udfs::Settings;
use asap_udfs::call_metrics::CallMetrics;
use asap_udfs::plan::FenceExec;
use asap_udfs::settings::OnError;

use crate::corpus::ReadSlices;
use crate::delta::store_of;
use crate::location;
use crate::run::ledger::OpenSlice;
use crate::run::ledger::{ATTEMPT, Attempt, SliceName};
use crate::run::output::receipt::Receipt;
use crate::run::output::rejects::ShardPath;
use crate::run::output::table_properties::Design;
use crate::run::progress::Progress;
use crate::shards::{Shards, sources};
use crate::stopping::Stopping;

const USAGE: [&str; 6] = ["calls", "cache_hits", "retries", "failed", "tokens_in", "tokens_out"];

/// How the rows of a run are written, and how many were.
#[derive(Debug)]
pub struct Writing {
    pub output: Url,
    pub rejects: Url,
    pub attempt: Attempt,
    pub design: Design,
    pub shard_bytes: NonZeroU64,
    pub settings: Settings,
    pub progress: Progress,
    pub(crate) stopping: Arc<Stopping>,
}

impl OpenSlice {
    fn rows_before(&self, end: u64) -> u64 {
        let among = |only: &[u64]| only.partition_point(|row| *row < end) as u64;
        self.slice.only.as_deref().map_or(end - self.name.start, among)
    }

    fn end_after(&self, rows: u64) -> u64 {
        match &self.slice.only {
            _ if rows == self.slice.rows() => self.name.end,
            _ if rows == 0 => self.name.start,
            Some(only) => only[rows as usize],
            None => self.name.start + rows,
        }
    }
}

/// Where a stopped slice ends: the position after the last received row, and the first missing row.
struct Cut {
    after_last: u64,
    first_missing: u64,
}

impl Writing {
    /// Writes the rows of a slice, which the only partition of `plan` returns.
    pub(crate) async fn write(
        &self,
        plan: &dyn ExecutionPlan,
        mut rows: SendableRecordBatchStream,
        open: &OpenSlice,
    ) -> Result<Receipt> {
        let slice = &open.name;
        let folder = Path::from(format!("{ATTEMPT}{}", self.attempt));
        let reject_folder = ShardPath::folder(self.attempt, slice, &open.before);
        let Design { rows: division, partition_by, .. } = &self.design;
        let (store, reject_store) = (store_of(&self.output)?, store_of(&self.rejects)?);
        let mut output = Shards::begin(store, folder, &division.output, partition_by, self.shard_bytes)?;
        let mut rejects = Shards::begin(reject_store, reject_folder, &division.rejects, &[], self.shard_bytes)?;
        let mut receipt = Receipt::default();
        let mut seen = Seen::new(slice);
        let mut seconds = 0.0;
        let is_cut = loop {
            let batch = tokio::select! {
                biased;
                batch = rows.next() => batch,
                () = self.stopping.until_cut() => break true,
            };
            let Some(batch) = batch.transpose()? else { break false };
            let started = Instant::now();
            seen.take(&batch)?;
            let divided = division.divide(&batch)?;
            count_rejects(&divided.rejects, self.settings.on_error == OnError::Fail, &mut receipt)?;
            let tokens_before = receipt.counts.tokens_in.unwrap_or(0);
            receipt.counts.count_originals(&batch, self.settings.chain_steps);
            receipt.counts.count_output(&divided.output);
            receipt.counts.count_short_after_stage_1(&divided.output, &self.settings);
            self.progress.count_questions(&divided.output);
            self.progress.count_systems(&divided.output);
            self.progress.count_refused(&divided.rejects);
            output.write(&divided.output).await?;
            rejects.write(&divided.rejects).await?;
            seconds += started.elapsed().as_secs_f64();
            let tokens = receipt.counts.tokens_in.unwrap_or(0) - tokens_before;
            self.progress.advance(batch.num_rows() as u64, divided.rejects.num_rows() as u64, tokens);
        };
        // Rows that are still in the models are dropped.
        drop(rows);
        let started = Instant::now();
        let failed = |error| location::failed(&format!("cannot write to {}", location::display(&self.output)), error);
        receipt.output = output.finish().await.map_err(failed)?;
        receipt.rejects = rejects.finish().await.map_err(failed)?;
        receipt.seconds.insert("write".to_string(), seconds + started.elapsed().as_secs_f64());
        account(plan, open, receipt, is_cut.then(|| seen.cut(open)))
    }
}

fn count_rejects(rejects: &RecordBatch, fail: bool, receipt: &mut Receipt) -> Result<()> {
    let text = |name: &str| rejects.column_by_name(name).map(|column| column.as_string::<i32>().clone());
    let (status, error) = (text("status"), text("error"));
    for (row, status) in status.iter().flatten().enumerate() {
        let status = status.unwrap_or_default();
        if fail {
            let reason = error.as_ref().map_or("", |error| error.value(row));
            let setting = Setting("asap.on_error");
            return exec_err!("a row failed with status {status} ({reason}), and {setting} is 'fail'");
        }
        receipt.counts.count_reject(status);
    }
    Ok(())
}

/// Tracks the received rows of a slice: each must come once, and from this slice only.
struct Seen<'a> {
    slice: &'a SliceName,
    rows: Vec<bool>,
}

impl<'a> Seen<'a> {
    fn new(slice: &'a SliceName) -> Self {
        Self { slice, rows: vec![false; slice.rows() as usize] }
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let wrong = || exec_datafusion_err!("the result of the pipeline has no column source");
        let (files, numbers) = sources(batch).ok_or_else(wrong)?;
        for (file, row) in files.iter().zip(numbers.values()) {
            let is_ours = file == Some(self.slice.path.as_str()) && (*row as u64) >= self.slice.start;
            let seen = self.rows.get_mut((*row as u64).wrapping_sub(self.slice.start) as usize).filter(|_| is_ours);
            match seen {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return exec_err!("row {row} of {} was returned twice", self.slice.path),
                None => return exec_err!("row {row} of {file:?} was returned for the slice {}", self.slice),
            }
        }
        Ok(())
    }

    fn cut(&self, open: &OpenSlice) -> Cut {
        let start = self.slice.start;
        let last = self.rows.iter().rposition(|seen| *seen).map(|at| start + at as u64);
        let missing = |row: &u64| !self.rows[(row - start) as usize];
        let first_missing = match &open.slice.only {
            Some(only) => only.iter().copied().find(missing),
            None => (start..self.slice.end).find(missing),
        };
        Cut { after_last: last.map_or(start, |last| last + 1), first_missing: first_missing.unwrap_or(self.slice.end) }
    }
}

/// Checks that every row read is in the output, in the rejects, or was filtered. Each is counted where it happens. The
/// receipt names the rows that it covers: all of the slice, or the first ones if the run was stopped.
fn account(plan: &dyn ExecutionPlan, open: &OpenSlice, mut receipt: Receipt, cut: Option<Cut>) -> Result<Receipt> {
    let mut found = PlanMetrics::default();
    found.seconds.extend(["read", "compute"].map(|part| (part.to_string(), 0.0)));
    found.visit(plan);
    let (out, rejected) = (receipt.counts.rows_out, receipt.counts.rows_rejected);
    let (rows, end, filtered) = match (cut, found.read) {
        // Operators keep the row order, so all rows before the last one were returned or filtered.
        (Some(Cut { after_last, first_missing }), _) => {
            let end = if found.filters { after_last } else { first_missing };
            let rows = open.rows_before(end);
            (rows, end, rows.saturating_sub(out + rejected))
        }
        // A WHERE that is never true reads no rows.
        (None, None) => (open.slice.rows(), open.name.end, open.slice.rows()),
        (None, Some(read)) if read > open.slice.rows() => {
            return exec_err!("{} has {} rows, but {read} were read", open.name, open.slice.rows());
        }
        (None, Some(read)) => (read, open.end_after(read), found.filtered),
    };
    if filtered + out + rejected != rows {
        return exec_err!(
            "{rows} rows of {} were read, but {out} are in the output, {rejected} rejected and {filtered} filtered: rows were \
             lost or duplicated, so nothing of the slice is committed",
            open.name
        );
    }
    receipt.slice = SliceName { end, ..open.name.clone() }.to_string();
    receipt.counts.rows_in = rows;
    receipt.counts.rows_filtered = filtered;
    receipt.usage = found.usage;
    receipt.seconds.extend(found.seconds);
    Ok(receipt)
}

#[derive(Default)]
struct PlanMetrics {
    read: Option<u64>,
    filters: bool,
    filtered: u64,
    usage: BTreeMap<String, u64>,
    /// Seconds by part of the work. The parts `score` and `ask`, waiting for the scoring model and for the anchorer, are
    /// there if the plan has such operators.
    seconds: BTreeMap<String, f64>,
}

impl PlanMetrics {
    fn visit(&mut self, plan: &dyn ExecutionPlan) {
        if plan.downcast_ref::<ReadSlices>().is_some() {
            *self.read.get_or_insert(0) += rows_of(plan);
            self.spend("read", plan, ReadSlices::TIME_READING);
            return;
        }
        if plan.downcast_ref::<FilterExec>().is_some() {
            self.filters = true;
            let before: u64 = plan.children().iter().map(|child| rows_of(child.as_ref())).sum();
            self.filtered += before.saturating_sub(rows_of(plan));
        }
        if let Some(fence) = plan.downcast_ref::<FenceExec>() {
            self.spend(if fence.asks() { "ask" } else { "score" }, plan, CallMetrics::TIME_WAITED);
            for name in USAGE {
                *self.usage.entry(name.to_string()).or_default() += metric(plan, name);
            }
        }
        self.spend("compute", plan, "elapsed_compute");
        plan.children().into_iter().for_each(|child| self.visit(child.as_ref()));
    }

    fn spend(&mut self, part: &str, plan: &dyn ExecutionPlan, name: &str) {
        *self.seconds.entry(part.to_string()).or_default() += metric(plan, name) as f64 / 1e9;
    }
}

/// The output rows of an operator. One without this metric returns the rows of its input.
fn rows_of(plan: &dyn ExecutionPlan) -> u64 {
    let counts = plan.metrics().is_some_and(|metrics| metrics.output_rows().is_some());
    match (counts, plan.children().as_slice()) {
        (false, [child]) => rows_of(child.as_ref()),
        _ => metric(plan, "output_rows"),
    }
}

fn metric(plan: &dyn ExecutionPlan, name: &str) -> u64 {
    let metrics = plan.metrics().unwrap_or_default();
    let named = metrics.iter().filter(|metric| metric.partition() == Some(0) && metric.value().name() == name);
    named.map(|metric| metric.value().as_usize() as u64).sum()
}
