//! The table provider: Parquet files of one schema, with the file and the row that each row came from.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, internal_datafusion_err};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{CachedParquetFileReaderFactory, ParquetRowSelection};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Expr;
use datafusion::parquet::arrow::RowNumber;
use datafusion::parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;
use object_store::ObjectMeta;

use super::slices::Slice;

/// The column that holds the file's name.
pub(super) const FILE_COLUMN: &str = "__corpus_file";
/// The column that holds the row's number in the file, counted from 0.
pub(super) const ROW_COLUMN: &str = "__corpus_row";

/// Files that have the same columns.
pub(super) struct Group {
    /// Their columns.
    pub schema: SchemaRef,
    /// Columns that have a value in every row of every file.
    pub never_null: HashSet<String>,
    /// Each file's place, its name, and its rows.
    pub files: Vec<(ObjectMeta, String, u64)>,
}

/// Parquet files of one schema. Beside their columns it has two of its own, [`FILE_COLUMN`] and [`ROW_COLUMN`].
#[derive(Debug)]
pub(super) struct FilesTable {
    store_url: ObjectStoreUrl,
    schema: TableSchema,
    /// The same without the mark by which the reader knows the row's column.
    plain_schema: SchemaRef,
    files: Vec<FileRows>,
    never_null: HashSet<String>,
}

/// A file, what it is called, how many rows it has, and how many of them are read, from its start.
#[derive(Debug, Clone)]
struct FileRows {
    meta: ObjectMeta,
    name: String,
    rows: u64,
    read: u64,
}

impl FilesTable {
    pub fn new(store_url: ObjectStoreUrl, group: Group) -> Self {
        let Group { schema, never_null, files } = group;
        let file_column = Field::new(FILE_COLUMN, DataType::Utf8, false);
        let row_column = Field::new(ROW_COLUMN, DataType::Int64, false);
        let fields =
            schema.fields().iter().cloned().chain([&file_column, &row_column].map(|own| Arc::new(own.clone())));
        let plain_schema = Arc::new(Schema::new(fields.collect::<Fields>()));
        let schema = TableSchema::builder(schema)
            .with_table_partition_cols(vec![Arc::new(file_column)])
            .with_virtual_columns(vec![Arc::new(row_column.with_extension_type(RowNumber))])
            .build();
        let files = files.into_iter().map(|(meta, name, rows)| FileRows { meta, name, rows, read: rows });
        Self { store_url, schema, plain_schema, files: files.collect(), never_null }
    }

    /// The same table with nothing but the rows of `slices`.
    pub fn only(&self, slices: &[Slice]) -> Self {
        let files = self.files.iter().filter_map(|file| {
            let slice = slices.iter().find(|slice| slice.file.name == file.name)?;
            Some(FileRows { read: slice.rows, ..file.clone() })
        });
        Self {
            store_url: self.store_url.clone(),
            schema: self.schema.clone(),
            plain_schema: Arc::clone(&self.plain_schema),
            files: files.collect(),
            never_null: self.never_null.clone(),
        }
    }

    /// The columns that the files themselves have.
    pub fn file_schema(&self) -> &SchemaRef {
        self.schema.file_schema()
    }

    pub fn has_null(&self, column: &str) -> bool {
        !self.never_null.contains(column)
    }

    /// The columns of a scan. The row's loses its mark, which the planner would miss where it folds expressions.
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

impl FileRows {
    fn partitioned(&self) -> PartitionedFile {
        let file = PartitionedFile::new_from_meta(self.meta.clone())
            .with_partition_values(vec![ScalarValue::Utf8(Some(self.name.clone()))]);
        if self.read == self.rows {
            return file;
        }
        let selection =
            vec![RowSelector::select(self.read as usize), RowSelector::skip((self.rows - self.read) as usize)];
        file.with_extension(ParquetRowSelection::new(RowSelection::from(selection)))
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

    /// One scan, which the engine may cut further by row groups. Filters reach it through the physical optimizer.
    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
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
        statistics.num_rows = Precision::Exact(self.files.iter().map(|file| file.read).sum::<u64>() as usize);
        let groups = FileGroup::new(self.files.iter().map(FileRows::partitioned).collect())
            .split_files(session.config().target_partitions());
        let config = FileScanConfigBuilder::new(self.store_url.clone(), source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}
