//! Writes the rows of slices to shards of the output and of the rejects. Each partition of the input is a slice, and
//! its result is one row with the receipt.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, exec_err, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::StreamExt;
use object_store::path::Path;
use url::Url;

use asap_udfs::call_metrics::CallMetrics;
use asap_udfs::plan::FenceExec;

use crate::corpus::ReadSlices;
use crate::delta::store_of;
use crate::run::output::ledger::{ATTEMPT, Attempt, Before, SliceName};
use crate::run::output::outcomes::Rows;
use crate::run::output::receipt::Receipt;
use crate::run::output::rejects::ShardPath;
use crate::run::output::shards::{Layout, Shards};
use crate::run::progress::Progress;
use crate::stopping::Stopping;

const USAGE: [&str; 6] = ["calls", "cache_hits", "retries", "failed", "tokens_in", "tokens_out"];

#[derive(Debug, Clone)]
pub struct Writing {
    pub output: Url,
    pub rejects: Url,
    pub attempt: Attempt,
    pub rows: Rows,
    pub output_layout: Layout,
    pub rejects_layout: Layout,
    /// Whether the first reject fails its slice.
    pub fail_on_reject: bool,
}

#[derive(Debug, Clone)]
pub struct Written {
    pub slice: SliceName,
    pub only: Option<Arc<[u64]>>,
    pub before: Before,
}

impl Written {
    fn rows(&self) -> u64 {
        self.only.as_ref().map_or(self.slice.rows(), |only| only.len() as u64)
    }

    fn rows_before(&self, end: u64) -> u64 {
        let among = |only: &Arc<[u64]>| only.partition_point(|row| *row < end) as u64;
        self.only.as_ref().map_or(end - self.slice.start, among)
    }

    fn end_after(&self, rows: u64) -> u64 {
        match &self.only {
            _ if rows == self.rows() => self.slice.end,
            _ if rows == 0 => self.slice.start,
            Some(only) => only[rows as usize],
            None => self.slice.start + rows,
        }
    }
}

#[derive(Debug)]
pub(crate) struct WriteShards {
    input: Arc<dyn ExecutionPlan>,
    writing: Arc<Writing>,
    slices: Arc<[Written]>,
    properties: Arc<PlanProperties>,
}

impl WriteShards {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, writing: Arc<Writing>, slices: Arc<[Written]>) -> Self {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("receipt", DataType::Utf8, false)]));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            input.output_partitioning().clone(),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { input, writing, slices, properties: Arc::new(properties) }
    }
}

impl DisplayAs for WriteShards {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteShards: attempt={}", self.writing.attempt)
    }
}

impl ExecutionPlan for WriteShards {
    fn name(&self) -> &str {
        "WriteShards"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.into_iter().next().ok_or_else(|| internal_datafusion_err!("WriteShards has one input"))?;
        Ok(Arc::new(Self::new(input, Arc::clone(&self.writing), Arc::clone(&self.slices))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(written) = self.slices.get(partition).cloned() else {
            return exec_err!("partition {partition} has no slice: the plan must have one partition per slice");
        };
        let progress = context.session_config().get_extension::<Progress>().unwrap_or_default();
        let stopping = context.session_config().get_extension::<Stopping>().unwrap_or_default();
        let rows = self.input.execute(partition, context)?;
        let (input, writing, schema) = (Arc::clone(&self.input), Arc::clone(&self.writing), self.schema());
        let receipt = async move {
            let receipt = write(rows, &writing, &written, &progress, &stopping).await?;
            let receipt = account(input.as_ref(), partition, &written, receipt)?;
            let columns = vec![Arc::new(StringArray::from(vec![receipt.encode()?])) as _];
            Ok(RecordBatch::try_new(schema, columns)?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), futures::stream::once(receipt))))
    }
}

/// A slice whose rows are in shards: all of them, or only the first ones if the run was stopped.
struct Ended {
    receipt: Receipt,
    /// If the run stopped waiting for rows: the position after the last received row, and the first missing row.
    cut: Option<Cut>,
}

struct Cut {
    after_last: u64,
    first_missing: u64,
}

async fn write(
    mut rows: SendableRecordBatchStream,
    writing: &Writing,
    written: &Written,
    progress: &Progress,
    stopping: &Stopping,
) -> Result<Ended> {
    let slice = &written.slice;
    let folder = Path::from(format!("{ATTEMPT}{}", writing.attempt));
    let reject_folder = ShardPath::folder(writing.attempt, slice, &written.before);
    let mut output = Shards::begin(store_of(&writing.output)?, folder, writing.output_layout.clone())?;
    let mut rejects = Shards::begin(store_of(&writing.rejects)?, reject_folder, writing.rejects_layout.clone())?;
    let mut receipt = Receipt::default();
    let mut seen = Seen::new(slice);
    let mut seconds = 0.0;
    let is_cut = loop {
        let batch = tokio::select! {
            biased;
            batch = rows.next() => batch,
            () = stopping.until_cut() => break true,
        };
        let Some(batch) = batch.transpose()? else { break false };
        let started = Instant::now();
        seen.take(&batch)?;
        let divided = writing.rows.divide(&batch)?;
        count_rejects(&divided.rejects, writing.fail_on_reject, &mut receipt)?;
        let tokens_before = receipt.counts.tokens_in.unwrap_or(0);
        receipt.counts.count_originals(&batch);
        receipt.counts.count_output(&divided.output);
        progress.count_questions(&divided.output);
        output.write(&divided.output).await?;
        rejects.write(&divided.rejects).await?;
        seconds += started.elapsed().as_secs_f64();
        let tokens = receipt.counts.tokens_in.unwrap_or(0) - tokens_before;
        progress.advance(batch.num_rows() as u64, divided.rejects.num_rows() as u64, tokens);
    };
    // Rows that are still in the models are dropped.
    drop(rows);
    let started = Instant::now();
    receipt.output = output.finish().await?;
    receipt.rejects = rejects.finish().await?;
    receipt.seconds.insert("write".to_string(), seconds + started.elapsed().as_secs_f64());
    Ok(Ended { receipt, cut: is_cut.then(|| seen.cut(written)) })
}

fn count_rejects(rejects: &RecordBatch, fail: bool, receipt: &mut Receipt) -> Result<()> {
    let text = |name: &str| rejects.column_by_name(name).map(|column| column.as_string::<i32>().clone());
    let (status, error) = (text("status"), text("error"));
    for (row, status) in status.iter().flatten().enumerate() {
        let status = status.unwrap_or_default();
        if fail {
            let reason = error.as_ref().map_or("", |error| error.value(row));
            return exec_err!("a row failed with status {status} ({reason}), and asap.on_error is 'fail'");
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
        let Some(source) = batch.column_by_name("source").and_then(|column| column.as_struct_opt()) else {
            return exec_err!("the result of the pipeline has no column source");
        };
        let (files, numbers) = (source.column(0).as_string::<i32>(), source.column(1).as_primitive::<Int64Type>());
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

    fn cut(&self, written: &Written) -> Cut {
        let start = self.slice.start;
        let last = self.rows.iter().rposition(|seen| *seen).map(|at| start + at as u64);
        let missing = |row: &u64| !self.rows[(row - start) as usize];
        let first_missing = match &written.only {
            Some(only) => only.iter().copied().find(missing),
            None => (start..self.slice.end).find(missing),
        };
        Cut { after_last: last.map_or(start, |last| last + 1), first_missing: first_missing.unwrap_or(self.slice.end) }
    }
}

/// Checks that every row read is in the output, in the rejects, or was filtered. Each is counted where it happens. The
/// receipt names the rows that it covers: all of the slice, or the first ones if the run was stopped.
fn account(plan: &dyn ExecutionPlan, partition: usize, written: &Written, ended: Ended) -> Result<Receipt> {
    let Ended { mut receipt, cut } = ended;
    let mut found = Found::default();
    found.visit(plan, partition);
    let (out, rejected) = (receipt.counts.rows_out, receipt.counts.rows_rejected);
    let (rows, end, filtered) = match (cut, found.read) {
        // Operators keep the row order, so all rows before the last one were returned or filtered.
        (Some(Cut { after_last, first_missing }), _) => {
            let end = if found.filters { after_last } else { first_missing };
            let rows = written.rows_before(end);
            (rows, end, rows.saturating_sub(out + rejected))
        }
        // A WHERE that is never true reads no rows.
        (None, None) => (written.rows(), written.slice.end, written.rows()),
        (None, Some(read)) if read > written.rows() => {
            return exec_err!("{} has {} rows, but {read} were read", written.slice, written.rows());
        }
        (None, Some(read)) => (read, written.end_after(read), found.filtered),
    };
    if filtered + out + rejected != rows {
        return exec_err!(
            "{rows} rows of {} were read, but {out} are in the output, {rejected} rejected and {filtered} filtered: rows were \
             lost or duplicated, so nothing of the slice is committed",
            written.slice
        );
    }
    receipt.slice = SliceName { end, ..written.slice.clone() }.to_string();
    receipt.counts.rows_in = rows;
    receipt.counts.rows_filtered = filtered;
    receipt.usage = found.usage;
    receipt.seconds.insert("read".to_string(), found.reading);
    receipt.seconds.insert("compute".to_string(), found.computing);
    for (part, waiting) in [("score", found.scoring), ("ask", found.asking)] {
        receipt.seconds.extend(waiting.map(|seconds| (part.to_string(), seconds)));
    }
    Ok(receipt)
}

#[derive(Default)]
struct Found {
    read: Option<u64>,
    filters: bool,
    filtered: u64,
    usage: std::collections::BTreeMap<String, u64>,
    reading: f64,
    computing: f64,
    /// Seconds of waiting for the scoring model, and for the anchorer. None if the plan has no such operator.
    scoring: Option<f64>,
    asking: Option<f64>,
}

impl Found {
    fn visit(&mut self, plan: &dyn ExecutionPlan, partition: usize) {
        if plan.downcast_ref::<ReadSlices>().is_some() {
            *self.read.get_or_insert(0) += rows_of(plan, partition);
            self.reading += seconds(plan, partition, ReadSlices::TIME_READING);
            return;
        }
        if plan.downcast_ref::<FilterExec>().is_some() {
            self.filters = true;
            let before: u64 = plan.children().iter().map(|child| rows_of(child.as_ref(), partition)).sum();
            self.filtered += before.saturating_sub(rows_of(plan, partition));
        }
        if let Some(fence) = plan.downcast_ref::<FenceExec>() {
            let waited = seconds(plan, partition, CallMetrics::TIME_WAITED);
            let part = if fence.asks() { &mut self.asking } else { &mut self.scoring };
            *part.get_or_insert(0.0) += waited;
            for name in USAGE {
                *self.usage.entry(name.to_string()).or_default() += metric(plan, partition, name);
            }
        }
        self.computing += seconds(plan, partition, "elapsed_compute");
        plan.children().into_iter().for_each(|child| self.visit(child.as_ref(), partition));
    }
}

/// The output rows of an operator. One without this metric returns the rows of its input.
fn rows_of(plan: &dyn ExecutionPlan, partition: usize) -> u64 {
    let counts = plan.metrics().is_some_and(|metrics| metrics.output_rows().is_some());
    match (counts, plan.children().as_slice()) {
        (false, [child]) => rows_of(child.as_ref(), partition),
        _ => metric(plan, partition, "output_rows"),
    }
}

fn metric(plan: &dyn ExecutionPlan, partition: usize, name: &str) -> u64 {
    let metrics = plan.metrics().unwrap_or_default();
    let of_partition =
        metrics.iter().filter(|metric| metric.partition() == Some(partition) && metric.value().name() == name);
    of_partition.map(|metric| metric.value().as_usize() as u64).sum()
}

fn seconds(plan: &dyn ExecutionPlan, partition: usize, name: &str) -> f64 {
    metric(plan, partition, name) as f64 / 1e9
}
