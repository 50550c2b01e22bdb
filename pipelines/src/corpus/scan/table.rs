//! The table provider: Parquet files of one schema, with the source file and row of each row.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, internal_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{CachedParquetFileReaderFactory, ParquetRowSelection};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::datasource::{TableType, provider_as_source};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::parquet::arrow::RowNumber;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;

use crate::corpus::FileRows;
use crate::corpus::files::file_rows;
use crate::corpus::place::{FILE_COLUMN, ROW_COLUMN, with_place};
use crate::corpus::scan::read_slices::ReadSlices;

/// Files of one schema.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// The columns in the files, without those of [`Self::partitions`].
    pub stored: SchemaRef,
    pub partitions: Vec<FieldRef>,
    pub in_table: Option<SchemaRef>,
    pub never_null: HashSet<String>,
    pub items: HashMap<String, u64>,
    pub files: Vec<FileRows>,
}

impl Group {
    pub(crate) fn schema(&self) -> SchemaRef {
        let partitions = self.partitions.iter().cloned();
        Arc::new(Schema::new(self.stored.fields().iter().cloned().chain(partitions).collect::<Fields>()))
    }

    pub(crate) fn published(&self) -> SchemaRef {
        self.in_table.as_ref().map_or_else(|| self.schema(), Arc::clone)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct FilesTable {
    store_url: ObjectStoreUrl,
    schema: TableSchema,
    file_schema: SchemaRef,
    plain_schema: SchemaRef,
    group: Group,
    /// Whether a scan is the leaf of a run's plan, which reads nothing until the run gives it a slice.
    in_slices: bool,
}

impl FilesTable {
    pub(crate) fn new(group: Group) -> Self {
        let (file_schema, store_url) = (group.schema(), group.files[0].file.store_url.clone());
        let given = group.partitions.iter().cloned();
        let file_column = Arc::new(Field::new(FILE_COLUMN, DataType::Utf8, false));
        let row_column = Field::new(ROW_COLUMN, DataType::Int64, false).with_extension_type(RowNumber);
        let schema = TableSchema::builder(Arc::clone(&group.stored))
            .with_table_partition_cols(given.chain([file_column]).collect::<Vec<_>>())
            .with_virtual_columns(vec![Arc::new(row_column)])
            .build();
        let plain_schema = with_place(&file_schema);
        Self { store_url, schema, file_schema, plain_schema, group, in_slices: false }
    }

    pub(crate) fn in_slices(&self) -> Self {
        Self { in_slices: true, ..self.clone() }
    }

    pub(crate) fn plan(&self) -> Result<LogicalPlanBuilder> {
        LogicalPlanBuilder::scan("files", provider_as_source(Arc::new(self.clone())), None)
    }

    pub(crate) fn only(&self, file: &FileRows) -> Self {
        self.of(vec![file.clone()])
    }

    pub(crate) fn of(&self, files: Vec<FileRows>) -> Self {
        let mut table = self.clone();
        table.group.files = files;
        table
    }

    pub(crate) fn files(&self) -> &[FileRows] {
        &self.group.files
    }

    pub(crate) fn file_schema(&self) -> &SchemaRef {
        &self.file_schema
    }

    /// Total items in the lists of a column in all files of the schema; None if it is not a list.
    pub(crate) fn items(&self, column: &str) -> Option<u64> {
        self.group.items.get(column).copied()
    }

    pub(crate) fn has_null(&self, column: &str) -> bool {
        !self.group.never_null.contains(column)
    }

    fn partitioned(&self, held: &FileRows) -> Result<PartitionedFile> {
        let file = &held.file;
        let mut values =
            self.group.partitions.iter().map(|field| file.given_value(field)).collect::<Result<Vec<_>>>()?;
        values.push(ScalarValue::Utf8(Some(file.path.clone())));
        let mut partitioned = PartitionedFile::new_from_meta(file.meta.clone()).with_partition_values(values);
        if !held.deleted.is_empty() {
            partitioned = partitioned.with_extension(ParquetRowSelection::new(held.left()));
        }
        Ok(partitioned)
    }

    /// The columns of a scan. A cast removes the row column's extension type, which constant folding would lose.
    fn projection(&self, indices: Option<&Vec<usize>>) -> ProjectionExprs {
        let all = (0..self.plain_schema.fields().len()).collect();
        let columns = indices.unwrap_or(&all).iter().map(|index| {
            let field = &self.plain_schema.fields()[*index];
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), *index));
            let expr = if field.name() == ROW_COLUMN {
                Arc::new(CastExpr::new_with_target_field(column, Arc::clone(field), None))
            } else {
                column
            };
            ProjectionExpr::new(expr, field.name())
        });
        ProjectionExprs::new(columns)
    }
}

#[async_trait]
impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plain_schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Plans one scan in small batches, which the engine may split by row groups. The physical optimizer pushes filters
    /// down.
    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.in_slices {
            let all = || (0..self.plain_schema.fields().len()).collect();
            let projection = projection.cloned().unwrap_or_else(all);
            return Ok(Arc::new(ReadSlices::try_new(Arc::clone(&self.file_schema), projection)?));
        }
        let options = TableParquetOptions {
            global: session.config_options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        let runtime = session.runtime_env();
        let reader = CachedParquetFileReaderFactory::new(
            runtime.object_store(&self.store_url)?,
            runtime.cache_manager.get_file_metadata_cache(),
        );
        let source = ParquetSource::new(self.schema.clone())
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(reader));
        let source = source.try_pushdown_projection(&self.projection(projection))?;
        let source = source.ok_or_else(|| internal_datafusion_err!("Parquet files take any projection"))?;
        let mut statistics = Statistics::new_unknown(self.schema.table_schema());
        statistics.num_rows = Precision::Exact(self.files().iter().map(FileRows::rows_left).sum::<u64>() as usize);
        let files = self.files().iter().map(|held| self.partitioned(held)).collect::<Result<Vec<_>>>()?;
        let groups = FileGroup::new(files).split_files(session.config().target_partitions());
        let config = FileScanConfigBuilder::new(self.store_url.clone(), source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_limit(limit)
            .with_batch_size(Some(file_rows::of_batch(self.files().iter()).min(session.config().batch_size())))
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}
