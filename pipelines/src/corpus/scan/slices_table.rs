//! The table of a run's plan, whose scan reads slices.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

use crate::corpus::scan::read_slices::ReadSlices;
use crate::corpus::scan::table::with_place;

#[derive(Debug, Clone)]
pub(crate) struct SlicesTable {
    file_schema: SchemaRef,
    plain_schema: SchemaRef,
}

impl SlicesTable {
    pub(crate) fn new(file_schema: &SchemaRef) -> Self {
        Self { file_schema: Arc::clone(file_schema), plain_schema: with_place(file_schema) }
    }
}

#[async_trait]
impl TableProvider for SlicesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plain_schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Returns a leaf that reads nothing: a run gives it a slice.
    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.plain_schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        Ok(Arc::new(ReadSlices::try_new(Arc::clone(&self.file_schema), projection)?))
    }
}
