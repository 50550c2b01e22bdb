//! The footer of a Parquet file: its schema and rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader};
use datafusion::parquet::schema::types::ColumnDescriptor;
use object_store::{ObjectMeta, ObjectStore};

use crate::corpus::files::file::MAGIC;
use crate::corpus::files::foreign::refuse_file;
use crate::corpus::files::guard::guarded;
use crate::object_reader::get_range;

const TAIL_BYTES: u64 = 8;
/// Size of the first read. Most footers fit into it, so one request is enough.
const FIRST_READ_BYTES: u64 = 64 * 1024;

pub(crate) struct Footer {
    pub schema: SchemaRef,
    pub row_groups: Vec<u64>,
    pub never_null: HashSet<String>,
    /// Total items in the lists of a column. A NULL or empty list counts as one.
    pub items: HashMap<String, u64>,
}

pub(crate) async fn read(store: &dyn ObjectStore, file: &ObjectMeta, name: &str) -> Result<Footer> {
    let metadata = metadata(store, file, name).await?;
    let (never_null, items) = (never_null(&metadata), items(&metadata));
    let row_groups = metadata.row_groups().iter().map(|group| group.num_rows().unsigned_abs()).collect();
    let metadata = metadata.file_metadata();
    let schema = guarded(|| parquet_to_arrow_schema(metadata.schema_descr(), metadata.key_value_metadata()))
        .map_err(|panicked| damaged(name, panicked))?
        .map_err(|error| damaged(name, error))?;
    Ok(Footer { schema: plain_schema(&schema), row_groups, never_null, items })
}

pub(crate) fn plain_schema(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(plain_field).collect::<Fields>()))
}

pub(crate) async fn metadata(store: &dyn ObjectStore, file: &ObjectMeta, name: &str) -> Result<ParquetMetaData> {
    if file.size < TAIL_BYTES {
        return refuse_file(store, file, name).await;
    }
    let start = file.size.saturating_sub(FIRST_READ_BYTES);
    let end = get_range(store, file, start..file.size).await?;
    let Some(tail) = end.last_chunk::<{ TAIL_BYTES as usize }>().filter(|tail| tail.ends_with(MAGIC)) else {
        return refuse_file(store, file, name).await;
    };
    let length = FooterTail::try_new(tail).map_err(|error| damaged(name, error))?.metadata_length() as u64;
    let Some(from) = file.size.checked_sub(length + TAIL_BYTES) else {
        return exec_err!("{name} is a damaged Parquet file: its footer of {length} bytes is longer than the file");
    };
    let bytes = if from >= start {
        end.slice((from - start) as usize..end.len() - TAIL_BYTES as usize)
    } else {
        get_range(store, file, from..file.size - TAIL_BYTES).await?
    };
    let metadata = guarded(|| ParquetMetaDataReader::decode_metadata(&bytes))
        .map_err(|panicked| damaged(name, panicked))?
        .map_err(|error| damaged(name, error))?;
    // A file that lost its middle still has its footer.
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let first = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let last = first.checked_add(column.compressed_size());
        if first < 0 || column.compressed_size() < 0 || last.is_none_or(|last| last.unsigned_abs() > from) {
            return exec_err!("{name} is a damaged Parquet file: its row groups are not before its footer");
        }
    }
    if metadata.row_groups().iter().any(|group| group.num_rows() < 0) {
        return exec_err!("{name} is a damaged Parquet file: a row group has a negative number of rows");
    }
    Ok(metadata)
}

pub(crate) fn damaged(name: &str, error: impl std::fmt::Display) -> DataFusionError {
    exec_datafusion_err!("{name} is a damaged Parquet file: {error}")
}

fn never_null(metadata: &ParquetMetaData) -> HashSet<String> {
    let columns = metadata.file_metadata().schema_descr().columns();
    let is_simple = |column: &ColumnDescriptor| column.path().parts().len() == 1 && column.max_rep_level() == 0;
    let without_null = |index: usize| {
        let chunks = metadata.row_groups().iter().map(|group| group.column(index));
        chunks.map(|chunk| chunk.statistics()?.null_count_opt()).all(|nulls| nulls == Some(0))
    };
    let found = columns.iter().enumerate().filter(|(index, column)| is_simple(column) && without_null(*index));
    found.map(|(_, column)| column.name().to_string()).collect()
}

/// The items of each list column: a leaf that is in no other list has one value per item.
fn items(metadata: &ParquetMetaData) -> HashMap<String, u64> {
    let columns = metadata.file_metadata().schema_descr().columns();
    let leaves = columns.iter().enumerate().filter(|(_, column)| column.max_rep_level() == 1);
    let counted = leaves.filter_map(|(index, column)| {
        let chunks = metadata.row_groups().iter().map(|group| group.column(index).num_values().unsigned_abs());
        Some((column.path().parts().first()?.clone(), chunks.sum()))
    });
    counted.collect()
}

fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain_type(field.data_type()), true))
}

fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(plain_field(item), *length),
        other => other.clone(),
    }
}
