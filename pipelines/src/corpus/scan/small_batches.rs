//! Keeps the batches of a corpus small.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

/// Limits the output batches of filters over a corpus to its batch size. Filters would otherwise collect rows up to the
/// engine's batch size, and thousands of chains take gigabytes on many cores.
#[derive(Debug)]
pub struct SmallBatches;

impl PhysicalOptimizerRule for SmallBatches {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
            match batch_rows(filter.input()) {
                Some(rows) if rows < filter.batch_size() => {
                    Ok(Transformed::yes(Arc::new(filter.with_batch_size(rows)?)))
                }
                _ => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "small_batches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn batch_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        return scan.data_source().downcast_ref::<FileScanConfig>()?.batch_size;
    }
    plan.children().into_iter().filter_map(batch_rows).min()
}
