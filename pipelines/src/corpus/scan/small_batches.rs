//! A corpus stays in the small batches that its files are read in.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

/// Has filters over a corpus hand on batches as small as those of its files: they would gather rows until there are as many
/// as the engine's batches have, and thousands of chains are gigabytes on many cores.
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

/// The rows of the smallest batches that a scan below was told to read.
fn batch_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        return scan.data_source().downcast_ref::<FileScanConfig>()?.batch_size;
    }
    plan.children().into_iter().filter_map(batch_rows).min()
}
