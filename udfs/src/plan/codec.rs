//! Fences as bytes, for plans that run in another process. Functions are found there by name.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, internal_datafusion_err, plan_datafusion_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, Expr, Extension, LogicalPlan, ScalarUDF, WindowUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::logical_plan::from_proto::parse_expr;
use datafusion_proto::logical_plan::to_proto::serialize_expr;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{LogicalExprNode, PhysicalExprNode};
use prost::Message;

use super::exec::FenceExec;
use super::node::{Fence, FencedCall};
use super::planned::PlannedCall;

/// What the bytes of a fence begin with: other codecs write none of it.
const MAGIC: &[u8] = b"asap.fence.1:";

/// A fence of a logical plan.
#[derive(Clone, PartialEq, Message)]
struct LogicalFence {
    #[prost(message, repeated, tag = "1")]
    calls: Vec<LogicalExprNode>,
    #[prost(string, repeated, tag = "2")]
    columns: Vec<String>,
}

/// A fence of a physical plan.
#[derive(Clone, PartialEq, Message)]
struct PhysicalFence {
    #[prost(message, repeated, tag = "1")]
    calls: Vec<PhysicalExprNode>,
    #[prost(string, repeated, tag = "2")]
    columns: Vec<String>,
}

fn encode(fence: &impl Message, bytes: &mut Vec<u8>) -> Result<()> {
    bytes.extend_from_slice(MAGIC);
    fence.encode(bytes).map_err(|error| internal_datafusion_err!("a fence cannot be encoded: {error}"))
}

/// The fence in these bytes; None if they are not of a fence.
fn decode<F: Message + Default>(bytes: &[u8]) -> Option<Result<F>> {
    let fence = bytes.strip_prefix(MAGIC)?;
    Some(F::decode(fence).map_err(|error| plan_datafusion_err!("the bytes of a fence cannot be read: {error}")))
}

/// Encodes fences of logical plans, and everything else as another codec does.
#[derive(Debug)]
pub struct FenceLogicalCodec {
    others: Arc<dyn LogicalExtensionCodec>,
}

impl FenceLogicalCodec {
    /// A codec of fences and what `others` encodes.
    pub fn new(others: Arc<dyn LogicalExtensionCodec>) -> Self {
        Self { others }
    }
}

impl LogicalExtensionCodec for FenceLogicalCodec {
    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        let Some(fence) = decode::<LogicalFence>(bytes) else {
            return self.others.try_decode(bytes, inputs, context);
        };
        let LogicalFence { calls, columns } = fence?;
        let [input] = inputs else { return Err(plan_datafusion_err!("a fence has one input, found {}", inputs.len())) };
        let calls = calls.iter().zip(columns).map(|(call, column)| match parse_expr(call, context, self)? {
            Expr::ScalarFunction(call) => Ok(FencedCall { function: call.func, args: call.args, column }),
            other => Err(plan_datafusion_err!("a fence makes calls, found {other}")),
        });
        Ok(Extension { node: Arc::new(Fence::try_new(input.clone(), calls.collect::<Result<_>>()?)?) })
    }

    fn try_encode(&self, node: &Extension, bytes: &mut Vec<u8>) -> Result<()> {
        let Some(fence) = Fence::of(node.node.as_ref()) else { return self.others.try_encode(node, bytes) };
        let calls = fence.calls.iter().map(|call| Ok(serialize_expr(&call.expression(), self)?));
        let columns = fence.calls.iter().map(|call| call.column.clone()).collect();
        encode(&LogicalFence { calls: calls.collect::<Result<_>>()?, columns }, bytes)
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        self.others.try_decode_table_provider(bytes, table, schema, context)
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        provider: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        self.others.try_encode_table_provider(table, provider, bytes)
    }

    fn try_decode_file_format(&self, bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.others.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(&self, bytes: &mut Vec<u8>, format: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.others.try_encode_file_format(bytes, format)
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

/// Encodes fences of physical plans, and everything else as another codec does.
#[derive(Debug)]
pub struct FencePhysicalCodec {
    others: Arc<dyn PhysicalExtensionCodec>,
}

impl FencePhysicalCodec {
    /// A codec of fences and what `others` encodes.
    pub fn new(others: Arc<dyn PhysicalExtensionCodec>) -> Self {
        Self { others }
    }
}

impl PhysicalExtensionCodec for FencePhysicalCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(fence) = decode::<PhysicalFence>(bytes) else {
            return self.others.try_decode(bytes, inputs, context, converter);
        };
        let PhysicalFence { calls, columns } = fence?;
        let [input] = inputs else { return Err(plan_datafusion_err!("a fence has one input, found {}", inputs.len())) };
        let (schema, context) = (input.schema(), PhysicalPlanDecodeContext::new(context, self));
        let calls = calls.iter().zip(columns).map(|(call, column)| {
            let expression = converter.proto_to_physical_expr(call, &schema, &context)?;
            PlannedCall::try_new(expression, &column, &schema)
        });
        Ok(Arc::new(FenceExec::try_new(Arc::clone(input), calls.collect::<Result<_>>()?)?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(fence) = node.downcast_ref::<FenceExec>() else {
            return self.others.try_encode(node, bytes, converter);
        };
        let calls = fence.calls().iter().map(|call| converter.physical_expr_to_proto(&call.expression, self));
        let columns = fence.calls().iter().map(|call| call.field.name().clone()).collect();
        encode(&PhysicalFence { calls: calls.collect::<Result<_>>()?, columns }, bytes)
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
