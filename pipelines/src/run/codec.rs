//! The nodes of a run's plan as bytes, so that another process can read and write its slices.

use std::num::NonZeroU64;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, plan_datafusion_err, plan_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf;
use prost::Message;
use url::Url;

use super::rows::{Origin, Rows};
use super::shards::Layout;
use super::write_shards::{WriteShards, Writing, Written};
use crate::corpus::ReadSlices;

/// What the bytes of the two nodes begin with: other codecs write none of it.
const READ: &[u8] = b"asap.read_slices.1:";
const WRITE: &[u8] = b"asap.write_shards.1:";

/// A [`ReadSlices`]; the slices are its input.
#[derive(Clone, PartialEq, Message)]
struct ReadNode {
    #[prost(message, optional, tag = "1")]
    file_schema: Option<protobuf::Schema>,
    #[prost(uint64, repeated, tag = "2")]
    projection: Vec<u64>,
}

/// A [`WriteShards`].
#[derive(Clone, PartialEq, Message)]
struct WriteNode {
    #[prost(string, tag = "1")]
    output: String,
    #[prost(string, tag = "2")]
    rejects: String,
    #[prost(string, tag = "3")]
    attempt: String,
    #[prost(message, optional, tag = "4")]
    output_table: Option<TableNode>,
    #[prost(message, optional, tag = "5")]
    rejects_table: Option<TableNode>,
    #[prost(message, repeated, tag = "6")]
    originals: Vec<OriginalNode>,
    #[prost(bool, tag = "7")]
    fail_on_reject: bool,
    #[prost(message, repeated, tag = "8")]
    slices: Vec<WrittenNode>,
}

/// A table that rows are written to.
#[derive(Clone, PartialEq, Message)]
struct TableNode {
    #[prost(message, optional, tag = "1")]
    schema: Option<protobuf::Schema>,
    #[prost(message, repeated, tag = "2")]
    origins: Vec<OriginNode>,
    #[prost(string, repeated, tag = "3")]
    partition_by: Vec<String>,
    #[prost(uint64, tag = "4")]
    shard_bytes: u64,
}

/// Where a column comes from; neither: the rows do not have it.
#[derive(Clone, PartialEq, Message)]
struct OriginNode {
    #[prost(string, optional, tag = "1")]
    pipeline: Option<String>,
    #[prost(uint64, optional, tag = "2")]
    original: Option<u64>,
}

/// An original column: its name in the files and in the output.
#[derive(Clone, PartialEq, Message)]
struct OriginalNode {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    column: String,
}

/// The slice of a partition.
#[derive(Clone, PartialEq, Message)]
struct WrittenNode {
    #[prost(string, tag = "1")]
    slice: String,
    #[prost(uint64, tag = "2")]
    rows: u64,
    #[prost(string, optional, tag = "3")]
    before: Option<String>,
}

/// Encodes [`ReadSlices`] and [`WriteShards`], and everything else as another codec does.
#[derive(Debug)]
pub struct RunCodec {
    others: Arc<dyn PhysicalExtensionCodec>,
}

impl RunCodec {
    /// A codec of a run's nodes and what `others` encodes.
    pub fn new(others: Arc<dyn PhysicalExtensionCodec>) -> Self {
        Self { others }
    }
}

impl PhysicalExtensionCodec for RunCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = || match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => plan_err!("a node of a run has one input, found {}", inputs.len()),
        };
        if let Some(bytes) = bytes.strip_prefix(READ) {
            return read_node(ReadNode::decode(bytes).map_err(unreadable)?, input()?);
        }
        if let Some(bytes) = bytes.strip_prefix(WRITE) {
            return write_node(WriteNode::decode(bytes).map_err(unreadable)?, input()?);
        }
        self.others.try_decode(bytes, inputs, context, converter)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let encoded = if let Some(read) = node.downcast_ref::<ReadSlices>() {
            bytes.extend_from_slice(READ);
            let projection = read.projection().iter().map(|column| *column as u64).collect();
            ReadNode { file_schema: Some(schema_node(read.file_schema())?), projection }.encode(bytes)
        } else if let Some(write) = node.downcast_ref::<WriteShards>() {
            bytes.extend_from_slice(WRITE);
            node_of(write)?.encode(bytes)
        } else {
            return self.others.try_encode(node, bytes, converter);
        };
        encoded.map_err(|error| internal_datafusion_err!("a node of a run cannot be encoded: {error}"))
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.others.try_decode_udf(name, bytes)
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        self.others.try_encode_udf(function, bytes)
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.others.try_decode_udaf(name, bytes)
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        self.others.try_encode_udaf(function, bytes)
    }

    fn try_decode_udwf(&self, name: &str, bytes: &[u8]) -> Result<Arc<WindowUDF>> {
        self.others.try_decode_udwf(name, bytes)
    }

    fn try_encode_udwf(&self, function: &WindowUDF, bytes: &mut Vec<u8>) -> Result<()> {
        self.others.try_encode_udwf(function, bytes)
    }
}

fn unreadable(error: impl std::fmt::Display) -> DataFusionError {
    plan_datafusion_err!("the bytes of a run's node cannot be read: {error}")
}

fn schema_node(schema: &Schema) -> Result<protobuf::Schema> {
    schema.try_into().map_err(|error| internal_datafusion_err!("a schema cannot be encoded: {error}"))
}

fn schema(node: Option<&protobuf::Schema>) -> Result<SchemaRef> {
    let node = node.ok_or_else(|| unreadable("it has no schema"))?;
    Ok(Arc::new(Schema::try_from(node).map_err(unreadable)?))
}

fn read_node(node: ReadNode, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let projection = node.projection.into_iter().map(|column| column as usize).collect();
    Ok(Arc::new(ReadSlices::try_new(input, schema(node.file_schema.as_ref())?, projection)?))
}

fn node_of(write: &WriteShards) -> Result<WriteNode> {
    let writing = write.writing();
    let Writing { rows, output_layout, rejects_layout, .. } = writing.as_ref();
    let slices = write.slices().iter().map(|written| WrittenNode {
        slice: written.slice.to_string(),
        rows: written.rows,
        before: written.before.map(|before| before.to_string()),
    });
    let originals =
        rows.originals.iter().map(|(name, column)| OriginalNode { name: name.clone(), column: column.clone() });
    Ok(WriteNode {
        output: writing.output.to_string(),
        rejects: writing.rejects.to_string(),
        attempt: writing.attempt.to_string(),
        output_table: Some(table_node(output_layout, &rows.output_columns)?),
        rejects_table: Some(table_node(rejects_layout, &rows.rejects_columns)?),
        originals: originals.collect(),
        fail_on_reject: writing.fail_on_reject,
        slices: slices.collect(),
    })
}

fn write_node(node: WriteNode, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let (output_layout, output_columns) = table(node.output_table)?;
    let (rejects_layout, rejects_columns) = table(node.rejects_table)?;
    let rows = Rows {
        output: Arc::clone(&output_layout.schema),
        rejects: Arc::clone(&rejects_layout.schema),
        originals: node.originals.into_iter().map(|OriginalNode { name, column }| (name, column)).collect(),
        output_columns,
        rejects_columns,
    };
    let writing = Writing {
        output: Url::parse(&node.output).map_err(unreadable)?,
        rejects: Url::parse(&node.rejects).map_err(unreadable)?,
        attempt: node.attempt.parse()?,
        rows,
        output_layout,
        rejects_layout,
        fail_on_reject: node.fail_on_reject,
    };
    let written = |node: WrittenNode| {
        let before = node.before.map(|before| before.parse()).transpose()?;
        Ok(Written { slice: node.slice.parse()?, rows: node.rows, before })
    };
    let slices = node.slices.into_iter().map(written).collect::<Result<_>>()?;
    Ok(Arc::new(WriteShards::new(input, Arc::new(writing), slices)))
}

fn table_node(layout: &Layout, origins: &[Origin]) -> Result<TableNode> {
    let origin = |origin: &Origin| match origin {
        Origin::Pipeline(name) => OriginNode { pipeline: Some(name.clone()), original: None },
        Origin::Original(index) => OriginNode { pipeline: None, original: Some(*index as u64) },
        Origin::Missing => OriginNode { pipeline: None, original: None },
    };
    Ok(TableNode {
        schema: Some(schema_node(&layout.schema)?),
        origins: origins.iter().map(origin).collect(),
        partition_by: layout.partition_by.clone(),
        shard_bytes: layout.shard_bytes.get(),
    })
}

fn table(node: Option<TableNode>) -> Result<(Layout, Vec<Origin>)> {
    let node = node.ok_or_else(|| unreadable("a table is missing"))?;
    let origin = |origin: OriginNode| match (origin.pipeline, origin.original) {
        (Some(name), _) => Origin::Pipeline(name),
        (None, Some(index)) => Origin::Original(index as usize),
        (None, None) => Origin::Missing,
    };
    let layout = Layout {
        schema: schema(node.schema.as_ref())?,
        partition_by: node.partition_by,
        shard_bytes: NonZeroU64::new(node.shard_bytes).ok_or_else(|| unreadable("its shards have no bytes"))?,
    };
    Ok((layout, node.origins.into_iter().map(origin).collect()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use asap_udfs::Settings;
    use asap_udfs::plan::FencePhysicalCodec;
    use datafusion::arrow::array::AsArray;
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::SessionContext;
    use datafusion_proto::bytes::{
        physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
    };
    use datafusion_proto::physical_plan::DefaultPhysicalExtensionCodec;

    use super::*;
    use crate::run::Request;
    use crate::run::files::OpenSlice;
    use crate::run::job::{Effort, Job, over_slices};
    use crate::run::receipt::{Counts, Receipt};

    const SQL: &str = "SELECT id, cot_steps(cot) AS steps, CASE WHEN CAST(id AS BIGINT) % 5 = 0 THEN 'odd' ELSE 'ok' END AS status, \
                       CAST(NULL AS VARCHAR) AS error, CAST(id AS BIGINT) % 2 AS half, source FROM corpus WHERE id <> '7'";

    /// A file of 12 rows in row groups of 4.
    async fn corpus(folder: &Path) {
        let rows =
            "SELECT value AS id, 'q' AS question, 'One. ' || value AS cot, 'a' AS answer FROM generate_series(1, 12)";
        let copy = format!(
            "COPY ({rows}) TO '{}' OPTIONS ('format.max_row_group_size' 4)",
            folder.join("in/a.parquet").display()
        );
        SessionContext::new().sql(&copy).await.unwrap().collect().await.unwrap();
    }

    async fn opened(folder: &Path) -> (Job, Request) {
        let path = |name: &str| folder.join(name).display().to_string();
        let mut request = Request::new("test", SQL, &[&path("in")], &path("out"), Settings::default());
        request.slice_rows = 5;
        request.partition_by = vec!["half".to_string()];
        (Job::open(&request, Effort::Run).await.unwrap(), request)
    }

    async fn plan(job: &mut Job, request: &Request, slices: &[OpenSlice]) -> Arc<dyn ExecutionPlan> {
        let pipeline = job.pipeline(request).await.unwrap();
        let template = job.template(&pipeline, 0).await.unwrap();
        let (_, writing) = job.design(&pipeline, template.as_ref(), request).unwrap();
        over_slices(&template, slices, &Arc::new(writing)).unwrap()
    }

    /// The plan as another process gets it.
    fn sent(plan: &Arc<dyn ExecutionPlan>, receiver: &SessionContext) -> Arc<dyn ExecutionPlan> {
        let fences = FencePhysicalCodec::new(Arc::new(DefaultPhysicalExtensionCodec {}));
        let codec = RunCodec::new(Arc::new(fences));
        let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(plan), &codec).unwrap();
        physical_plan_from_bytes_with_extension_codec(&bytes, &receiver.task_ctx(), &codec).unwrap()
    }

    async fn receipts(plan: Arc<dyn ExecutionPlan>, context: &SessionContext) -> Result<Vec<Receipt>> {
        let batches = collect(plan, context.task_ctx()).await?;
        batches.iter().map(|batch| Receipt::decode(batch.column(0).as_string::<i32>().value(0))).collect()
    }

    fn counts(receipts: &[Receipt]) -> Vec<(String, Counts, usize, usize)> {
        let of = |receipt: &Receipt| {
            (receipt.slice.clone(), receipt.counts.clone(), receipt.output.len(), receipt.rejects.len())
        };
        let mut counts: Vec<_> = receipts.iter().map(of).collect();
        counts.sort_by(|a, b| a.0.cmp(&b.0));
        counts
    }

    #[tokio::test]
    async fn a_plan_that_was_sent_reads_and_writes_the_same() {
        let folder = tempfile::tempdir().unwrap();
        corpus(folder.path()).await;
        let (mut here, request) = opened(folder.path()).await;
        let (there, _) = opened(folder.path()).await;
        let mut slices = std::mem::take(&mut here.slices);
        assert_eq!(slices.iter().map(|slice| slice.name.start).collect::<Vec<_>>(), [0, 4, 8]);
        // Row numbers, a selection of rows, and who was there before travel too.
        slices[2].slice.only = Some(Arc::from([9, 11]));
        slices[2].before = Some(here.output.attempt());
        let plan = plan(&mut here, &request, &slices).await;
        let received = sent(&plan, &there.context);
        let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
        assert_eq!(text(&received), text(&plan));
        assert!(text(&plan).contains("WriteShards") && text(&plan).contains("ReadSlices"), "{}", text(&plan));
        let expected = receipts(plan, &here.context).await.unwrap();
        let found = receipts(received, &there.context).await.unwrap();
        assert_eq!(counts(&found), counts(&expected));
        assert_eq!(found.iter().map(|receipt| receipt.counts.rows_in).sum::<u64>(), 10);
        assert_eq!(found.iter().map(|receipt| receipt.counts.rows_rejected).sum::<u64>(), 2);
    }

    #[tokio::test]
    async fn a_plan_that_was_sent_refuses_a_file_that_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        corpus(folder.path()).await;
        let (mut here, request) = opened(folder.path()).await;
        let slices = std::mem::take(&mut here.slices);
        let plan = plan(&mut here, &request, &slices).await;
        let received = sent(&plan, &here.context);
        corpus(folder.path()).await;
        let error = receipts(received, &here.context).await.unwrap_err().to_string();
        assert!(error.contains("a.parquet"), "{error}");
    }
}
