//! Reads the rows of a slice.

use std::fmt;
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::compute::{CastOptions, filter_record_batch};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::nested_struct::cast_column;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_err, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use datafusion::scalar::ScalarValue;
use futures::{Stream, StreamExt, TryStreamExt};

use crate::corpus::files::failure::FileFailure;
use crate::corpus::place::{FILE_COLUMN, ROW_COLUMN, with_place};
use crate::corpus::scan::open_files::{Claim, FileReader, OpenFiles};
use crate::corpus::scan::slices::{Slice, row_group_start};
use crate::stopping::Stopping;

/// Reads a slice, its only partition. Each output row has its file and row number. A file that cannot be read, or that was
/// replaced since it was listed, is a [`FileFailure`]. A stopped run ends early: the rows read so far are the first rows
/// of the slice.
#[derive(Debug)]
pub struct ReadSlices {
    slice: Option<Slice>,
    scan: Arc<Scan>,
    metrics: ExecutionPlanMetricsSet,
}

/// What the readers of all slices share.
#[derive(Debug)]
struct Scan {
    file_schema: SchemaRef,
    projection: Vec<usize>,
    schema: SchemaRef,
    open: Arc<OpenFiles>,
    properties: Arc<PlanProperties>,
}

impl ReadSlices {
    pub(crate) const TIME_READING: &'static str = "time_reading";

    /// Reads the columns `projection` of files with the columns `file_schema`. The two indexes after them are the
    /// file's name and the row number in it, from 0. There is no slice yet.
    pub(crate) fn try_new(file_schema: SchemaRef, projection: Vec<usize>) -> Result<Self> {
        let schema = Arc::new(with_place(&file_schema).project(&projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        let scan = Arc::new(Scan { file_schema, projection, schema, open: Arc::default(), properties });
        Ok(Self { slice: None, scan, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// A reader of a slice that shares open files with this one.
    pub(crate) fn over(&self, slice: Slice) -> Self {
        Self { slice: Some(slice), scan: Arc::clone(&self.scan), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for ReadSlices {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let columns: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "ReadSlices: columns=[{}]", columns.join(", "))
    }
}

impl ExecutionPlan for ReadSlices {
    fn name(&self) -> &str {
        "ReadSlices"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.scan.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.slice.as_ref().map(|slice| {
            let reading = Reading {
                slice: slice.clone(),
                // Claimed now, in the order in which slices start.
                claim: self.scan.open.claim(slice),
                scan: Arc::clone(&self.scan),
                seconds: MetricBuilder::new(&self.metrics).subset_time(Self::TIME_READING, partition),
                context,
            };
            reading.rows()
        });
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = futures::stream::iter(rows).flatten();
        let counted = rows.inspect_ok(move |batch| baseline.record_output(batch.num_rows()));
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// What is needed to read a slice.
struct Reading {
    slice: Slice,
    claim: Claim,
    scan: Arc<Scan>,
    seconds: Time,
    context: Arc<TaskContext>,
}

impl Reading {
    /// The rows of the slice. Any error becomes the failure of its file.
    fn rows(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        let path = self.slice.file.path.clone();
        let stopping: Arc<Stopping> = self.context.session_config().get_extension().unwrap_or_default();
        let rows = async move {
            let rows = match stopping.is_draining() {
                true => None,
                false => Some(SliceRows::open(self).await?),
            };
            Ok::<_, DataFusionError>(futures::stream::try_unfold((rows, stopping), |(rows, stopping)| async move {
                let Some(mut rows) = rows.filter(|_| !stopping.is_draining()) else { return Ok(None) };
                Ok(match rows.next().await? {
                    Some(batch) => Some((batch, (Some(rows), stopping))),
                    None => {
                        rows.close();
                        None
                    }
                })
            }))
        };
        futures::stream::once(rows).try_flatten().map_err(move |error: DataFusionError| {
            DataFusionError::External(Box::new(FileFailure::new(&path, &root(error))))
        })
    }
}

fn root(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::ParquetError(error) => match *error {
            ParquetError::External(inner) => match inner.downcast::<object_store::Error>() {
                Ok(error) => DataFusionError::ObjectStore(error),
                Err(inner) => DataFusionError::External(inner),
            },
            other => DataFusionError::Execution(format!("a damaged page: {other}")),
        },
        DataFusionError::ArrowError(error, _) => DataFusionError::Execution(format!("a damaged page: {error}")),
        other => other,
    }
}

struct SliceRows {
    reader: FileReader,
    slice: Slice,
    claim: Claim,
    footer: Arc<ParquetMetaData>,
    columns: Columns,
    scan: Arc<Scan>,
    seconds: Time,
    /// Whether the reader skips unwanted rows; if not, they are filtered out after reading.
    is_picked: bool,
    passed: u64,
    read: u64,
}

impl SliceRows {
    async fn open(reading: Reading) -> Result<Self> {
        let Reading { slice, claim, scan, seconds, context } = reading;
        let store = context.runtime_env().object_store(&slice.file.store_url)?;
        let footer = scan.open.footer(store.as_ref(), &slice.file).await?;
        let columns = Columns::of(&footer, &scan.file_schema, &scan.projection, &slice)?;
        let picked = slice.only.as_ref().filter(|only| is_few(only, &slice));
        let is_picked = picked.is_some();
        let ranges: Vec<Range<u64>> = match picked {
            Some(only) => only.iter().map(|row| *row..row + 1).collect(),
            // The reader continues after the slice, for the next slice of its row group.
            None => once(slice.start..footer.file_metadata().num_rows().unsigned_abs().max(slice.end)).collect(),
        };
        let left = if is_picked { None } else { claim.reader().await };
        let reader = match left {
            Some(reader) => reader,
            None => {
                let batch_rows = context.session_config().batch_size();
                FileReader::open(store, &slice.file, &footer, &ranges, &columns.in_file, batch_rows)?
            }
        };
        Ok(Self { reader, footer, columns, scan, seconds, is_picked, passed: 0, read: 0, slice, claim })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let slice = &self.slice;
        let started = Instant::now();
        let next = match self.is_picked {
            true => self.reader.next_selected().await?,
            false => self.reader.next(slice.start, slice.end).await?,
        };
        let Some(batch) = next else {
            if self.read < slice.rows() {
                return exec_err!("expected rows {} to {}, found {} of them", slice.start, slice.end, self.read);
            }
            return Ok(None);
        };
        let rows = batch.num_rows() as u64;
        let first = slice.start + self.passed;
        self.passed += rows;
        let (batch, numbers): (_, Vec<u64>) = match &slice.only {
            Some(only) if self.is_picked => {
                (batch, only.iter().skip(self.read as usize).take(rows as usize).copied().collect())
            }
            Some(only) => {
                let at = |row: u64| only.partition_point(|wanted| *wanted < row);
                let wanted = &only[at(first)..at(first + rows)];
                let mut is_wanted = vec![false; rows as usize];
                wanted.iter().for_each(|row| is_wanted[(row - first) as usize] = true);
                (filter_record_batch(&batch, &is_wanted.into())?, wanted.to_vec())
            }
            None => (batch, (first..first + rows).collect()),
        };
        self.read += numbers.len() as u64;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.into_iter().map(|row| row as i64)));
        let batch = self.columns.gather(&batch, &self.scan.schema, slice, &numbers)?;
        self.seconds.add_elapsed(started);
        Ok(Some(batch))
    }

    /// Leaves the reader to the next slice of the row group, if this slice ends within it.
    fn close(self) {
        let Self { reader, slice, claim, footer, is_picked, .. } = self;
        let rows: Vec<u64> = footer.row_groups().iter().map(|group| group.num_rows().unsigned_abs()).collect();
        let ends_within = slice.end < rows.iter().sum() && row_group_start(&rows, slice.end) != slice.end;
        if !is_picked && ends_within {
            claim.leave(reader);
        }
    }
}

/// Whether few enough rows are wanted to skip the others, page by page. Else the row group's shared reader reads all.
fn is_few(only: &[u64], slice: &Slice) -> bool {
    (only.len() as u64) < (slice.end - slice.start) / 2
}

struct Columns {
    in_file: Vec<usize>,
    origins: Vec<Origin>,
}

enum Origin {
    Read(usize),
    Given(ScalarValue),
    File,
    Row,
}

impl Columns {
    fn of(footer: &ParquetMetaData, file_schema: &Schema, projection: &[usize], slice: &Slice) -> Result<Self> {
        let in_footer = footer.file_metadata().schema_descr().root_schema().get_fields();
        let place = |name: &str| in_footer.iter().position(|field| field.name() == name);
        let plain = with_place(file_schema);
        let fields: Vec<&Field> = projection.iter().map(|index| plain.field(*index)).collect();
        let mut in_file: Vec<usize> = fields.iter().filter_map(|field| place(field.name())).collect();
        in_file.sort_unstable();
        in_file.dedup();
        let origin = |field: &&Field| match field.name().as_str() {
            FILE_COLUMN => Ok(Origin::File),
            ROW_COLUMN => Ok(Origin::Row),
            name => match place(name) {
                Some(place) => {
                    let at = in_file.iter().position(|held| *held == place);
                    at.map(Origin::Read).ok_or_else(|| internal_datafusion_err!("column {name} was not requested"))
                }
                None => Ok(Origin::Given(slice.file.given_value(field)?)),
            },
        };
        let origins = fields.iter().map(origin).collect::<Result<Vec<_>>>()?;
        Ok(Self { in_file, origins })
    }

    fn gather(
        &self,
        batch: &RecordBatch,
        schema: &SchemaRef,
        slice: &Slice,
        numbers: &ArrayRef,
    ) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let texts =
            |text: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows))) };
        let columns = self.origins.iter().zip(schema.fields()).map(|(origin, field)| match origin {
            Origin::Read(index) if batch.column(*index).data_type() == field.data_type() => {
                Ok(Arc::clone(batch.column(*index)))
            }
            // A struct may have gained fields since the file was written.
            Origin::Read(index) => cast_column(batch.column(*index), field.data_type(), &CastOptions::default()),
            Origin::Given(value) => value.to_array_of_size(rows),
            Origin::File => Ok(texts(&slice.file.path)),
            Origin::Row => Ok(Arc::clone(numbers)),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }
}
