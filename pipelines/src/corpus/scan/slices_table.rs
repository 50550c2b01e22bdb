//! Slices as a table.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use crate::corpus::scan::read_slices::ReadSlices;
use crate::corpus::scan::slices::{Slice, encode, schema};
use crate::corpus::scan::table::with_place;

/// The leaf of a run's plan: slices, one per partition, and their reader.
#[derive(Debug, Clone)]
pub struct SlicesTable {
    file_schema: SchemaRef,
    plain_schema: SchemaRef,
}

impl SlicesTable {
    pub(crate) fn new(file_schema: &SchemaRef) -> Self {
        Self { file_schema: Arc::clone(file_schema), plain_schema: with_place(file_schema) }
    }
}

pub(crate) fn source_of(slices: &[Slice]) -> Result<Arc<dyn ExecutionPlan>> {
    let partitions = slices.iter().map(|slice| Ok(vec![encode(std::slice::from_ref(slice))?]));
    Ok(MemorySourceConfig::try_new_exec(&partitions.collect::<Result<Vec<_>>>()?, schema(), None)?)
}

#[async_trait]
impl TableProvider for SlicesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plain_schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Returns a plan that reads nothing: a run replaces the empty leaf with its slices.
    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.plain_schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let leaf = MemorySourceConfig::try_new_exec(&[vec![]], schema(), None)?;
        Ok(Arc::new(ReadSlices::try_new(leaf, Arc::clone(&self.file_schema), projection)?))
    }
}
