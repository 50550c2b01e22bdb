//! Slices: the rows of a corpus that one run reads.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::{ViewTable, provider_as_source, source_as_provider};
use datafusion::logical_expr::{LogicalPlan, TableScanBuilder};

use super::table::FilesTable;
use super::{Corpus, CorpusFile};

/// The first rows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The file.
    pub file: CorpusFile,
    /// How many of its rows; all, unless a limit ends in this file.
    pub rows: u64,
}

impl Corpus {
    /// The slices that hold the first `limit` rows of the corpus, or all; files in their order, one slice each.
    pub fn slices(&self, limit: Option<u64>) -> Vec<Slice> {
        let mut left = limit.unwrap_or(u64::MAX);
        let mut slices = Vec::new();
        for file in &self.files {
            let rows = file.rows.min(left);
            if rows > 0 {
                slices.push(Slice { file: file.clone(), rows });
            }
            left -= rows;
        }
        slices
    }

    /// The table to register as `corpus` if only `slices` are to be read.
    ///
    /// # Errors
    /// If the plan cannot be rebuilt.
    pub fn view_of(&self, slices: &[Slice]) -> Result<ViewTable> {
        let plan = self.plan.clone().transform_up(|node| match node {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source)?;
                let Some(files) = provider.downcast_ref::<FilesTable>() else {
                    return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
                };
                let source = provider_as_source(Arc::new(files.only(slices)));
                let scan = TableScanBuilder::new(scan.table_name, source)
                    .with_projection(scan.projection)
                    .with_filters(scan.filters)
                    .with_fetch(scan.fetch)
                    .build()?;
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(ViewTable::new(plan.data, None))
    }
}
