//! Columns that are recognised by what stands in them: the tags of a chain of thought.

use asap_udfs::kernels::tags;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::physical_plan::collect;

use super::shape::{self, Shape};
use super::table::FilesTable;

/// Rows that are looked at.
const SAMPLE_ROWS: usize = 16;

/// The shape of a table whose names tell nothing: the first rows of one text column, and of no other, hold think tags.
///
/// # Errors
/// If no column or several do, or if no column is the question: the columns then fit no shape.
pub(super) async fn recognise(
    session: &dyn Session,
    table: &FilesTable,
    file: &str,
    notes: &mut Vec<String>,
) -> Result<Shape> {
    let schema = table.file_schema();
    let texts = shape::texts(schema);
    let scan = table.scan(session, Some(&texts), &[], Some(SAMPLE_ROWS)).await?;
    let batches = collect(scan, session.task_ctx()).await?;
    let mut tagged = Vec::new();
    for (place, index) in texts.into_iter().enumerate() {
        let mut seen = 0;
        let mut with_tags = 0;
        for batch in &batches {
            let values = cast(batch.column(place), &DataType::Utf8View)?;
            for text in values.as_string_view().iter().flatten() {
                seen += 1;
                with_tags += usize::from(tags::think(text).is_some());
            }
        }
        // A few generations may have been cut before their closing tag.
        if with_tags * 2 > seen {
            tagged.push(schema.field(index).name());
        }
    }
    let [generation] = tagged.as_slice() else { return shape::refuse(schema, file) };
    let Some(shape) = shape::with_tags(schema, generation) else { return shape::refuse(schema, file) };
    notes.push(format!("column {generation} of {file} holds think tags and is read as the generation"));
    Ok(shape)
}
