//! Finds the columns that mark each row as correct or not.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::{lit, not};
use futures::StreamExt;

use crate::corpus::rules::ROW_FLAGS;
use crate::corpus::scan::first_rows::first_rows;
use crate::corpus::scan::table::FilesTable;
use crate::corpus::shape::expressions::{column, text};
use crate::corpus::shape::flags::{MISSING, said, value};
use crate::corpus::shape::path::is_text;
use crate::corpus::shape::{self, Response, Shape};

const CONCURRENT: usize = 16;

/// Finds the flag columns whose values are all Boolean, 0 or 1, up to the first without NULL, the likeliest first. Notes
/// report them, and why others are not read.
pub(crate) async fn of_rows(
    session: &dyn Session,
    table: &FilesTable,
    shape: &Shape,
    file: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<String>> {
    let mut flags = Vec::new();
    // If a row has several generations, their flags decide.
    if matches!(shape.response, Response::Generations(_)) {
        return Ok(flags);
    }
    let schema = table.file_schema();
    for name in ROW_FLAGS.iter().filter_map(|name| shape::find(schema, name)) {
        let Ok(field) = schema.field_with_name(&name) else { continue };
        let found = match field.data_type() {
            DataType::Null => continue,
            DataType::Boolean => None,
            kind if is_text(kind) => other_value(session, table, &name).await?.map(|_| shape::kind(kind)),
            kind if kind.is_numeric() => other_value(session, table, &name).await?,
            kind => Some(shape::kind(kind)),
        };
        match found {
            Some(found) => notes.push(format!(
                "column {name} of {file} is not read: to mark correct rows, every value must be true, false, 0 or 1, found \
                 {found}"
            )),
            None => {
                let kind = field.data_type();
                let is_last = !table.has_null(&name) && !kind.is_floating() && !is_text(kind);
                flags.push(name);
                if is_last {
                    break;
                }
            }
        }
    }
    if !flags.is_empty() {
        notes.push(format!(
            "rows of {file} whose {} is false or 0 are rejects (unverified); to keep them, name the columns \
             without it: {}",
            flags.join(", else "),
            shape.mapping().flag()
        ));
    }
    Ok(flags)
}

/// The first value that is neither true nor false, 0, 1 or missing.
async fn other_value(session: &dyn Session, table: &FilesTable, name: &str) -> Result<Option<String>> {
    let kind = table.file_schema().field_with_name(name)?.data_type();
    let Some(value) = value(column(name), kind) else { return Ok(None) };
    let is_missing = said(column(name)).in_list(MISSING.map(lit).to_vec(), false);
    let is_other = value.clone().in_list(vec![lit(0.0), lit(1.0)], true).or(value.is_null().and(not(is_missing)));
    let columns = [text(column(name))];
    let searches =
        table.files().iter().map(|file| {
            let table = table.only(file);
            let (is_other, columns) = (&is_other, &columns);
            async move {
                first_rows(session, &table, 1, columns, |table| table.plan()?.filter(is_other.clone())?.build()).await
            }
        });
    let mut searches = futures::stream::iter(searches.collect::<Vec<_>>()).buffered(CONCURRENT);
    while let Some(found) = searches.next().await {
        // Damaged files are reported when their rows are read.
        let found = found.unwrap_or_default();
        if let Some(value) = found.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten()).next() {
            return Ok(Some(value.to_string()));
        }
    }
    Ok(None)
}
