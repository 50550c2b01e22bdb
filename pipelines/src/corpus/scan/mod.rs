//! Reads the rows of files: whole files as a table, or slices of them.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the table provider over the files of one schema |
//! | [`slices`], [`read_slices`], [`open_files`] | a slice of a file, and how its rows are read |
//! | [`first_rows`], [`small_batches`] | the first rows of files; batches of a bounded size |
//! | [`guard`] | panics of readers as file failures |

pub(crate) mod first_rows;
pub(crate) mod guard;
pub(crate) mod open_files;
pub(crate) mod read_slices;
pub(crate) mod slices;
pub(crate) mod small_batches;
pub(crate) mod table;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

pub(crate) const FILE_COLUMN: &str = "__corpus_file";
/// The column of the row number in the file, counted from 0.
pub(crate) const ROW_COLUMN: &str = "__corpus_row";

pub(crate) fn with_place(file_schema: &Schema) -> SchemaRef {
    let own = [Field::new(FILE_COLUMN, DataType::Utf8, false), Field::new(ROW_COLUMN, DataType::Int64, false)];
    Arc::new(Schema::new(file_schema.fields().iter().cloned().chain(own.map(Arc::new)).collect::<Fields>()))
}
