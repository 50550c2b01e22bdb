//! The physical operator of a fence.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionMapping;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildStats, ColumnStatistics, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    Statistics, StatisticsArgs,
};

use super::planned::PlannedCall;
use super::window::{InFlight, Level};
use crate::call_metrics::CallMetrics;

/// Makes calls for each row of its input, for a bounded window of rows, and appends their results as columns. Rows keep
/// their order and their partition.
#[derive(Debug)]
pub struct FenceExec {
    input: Arc<dyn ExecutionPlan>,
    calls: Vec<PlannedCall>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FenceExec {
    pub(super) fn try_new(input: Arc<dyn ExecutionPlan>, calls: Vec<PlannedCall>) -> Result<Self> {
        let inner = input.schema();
        let fields: Fields =
            inner.fields().iter().cloned().chain(calls.iter().map(|call| Arc::clone(&call.field))).collect();
        let schema: SchemaRef = Arc::new(Schema::new_with_metadata(fields, inner.metadata().clone()));
        let columns: Vec<usize> = (0..inner.fields().len()).collect();
        let mapping = ProjectionMapping::from_indices(&columns, &inner)?;
        let properties = PlanProperties::new(
            input.equivalence_properties().project(&mapping, schema),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Ok(Self { input, calls, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() })
    }

    pub fn asks(&self) -> bool {
        self.calls.iter().any(|planned| planned.call.asking().is_of_language_model)
    }
}

impl DisplayAs for FenceExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.calls.iter().map(|call| format!("{} as {}", call.expression, call.field.name()));
        let calls = calls.collect::<Vec<_>>().join(", ");
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, "FenceExec: calls=[{calls}]"),
            DisplayFormatType::TreeRender => writeln!(f, "calls={calls}"),
        }
    }
}

impl ExecutionPlan for FenceExec {
    fn name(&self) -> &str {
        Self::static_name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    // More partitions would mean more rows in flight, not more concurrent calls.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for argument in self.calls.iter().flat_map(|call| &call.args) {
            if visit(argument)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.into_iter().next().ok_or_else(|| internal_datafusion_err!("a fence has one input"))?;
        Ok(Arc::new(Self::try_new(input, self.calls.clone())?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let level = Level {
            calls: self.calls.clone(),
            schema: self.schema(),
            context,
            metrics: Arc::new(CallMetrics::new(&self.metrics, partition)),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        Ok(Box::pin(InFlight::new(level, input, partition)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::clone(&inputs[0]);
        statistics.column_statistics.extend(self.calls.iter().map(|_| ColumnStatistics::new_unknown()));
        statistics.total_byte_size = Precision::Absent;
        Ok(Arc::new(statistics))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
