//! Where a row is from: columns that asap adds to the rows of files.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

pub(crate) const FILE_COLUMN: &str = "__corpus_file";
/// The column of the row number in the file, counted from 0.
pub(crate) const ROW_COLUMN: &str = "__corpus_row";

pub(crate) fn with_place(file_schema: &Schema) -> SchemaRef {
    let own = [Field::new(FILE_COLUMN, DataType::Utf8, false), Field::new(ROW_COLUMN, DataType::Int64, false)];
    Arc::new(Schema::new(file_schema.fields().iter().cloned().chain(own.map(Arc::new)).collect::<Fields>()))
}
