//! The column that marks each row as correct or not.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::functions::string::expr_fn::concat;
use datafusion::logical_expr::{Expr, cast, lit, when};
use futures::StreamExt;

use crate::corpus::scan::first_rows::first_rows;
use crate::corpus::scan::table::FilesTable;
use crate::corpus::shape;
use crate::corpus::shape::expressions::{column, text};
use crate::corpus::shape::rules::ROW_FLAGS;
use crate::corpus::shape::{Response, Shape};

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
            kind if kind.is_numeric() => other_value(session, table, &name).await?,
            kind => Some(shape::kind(kind)),
        };
        match found {
            Some(found) => notes.push(format!(
                "column {name} of {file} is not read: to mark correct rows, every value must be true, false, 0 or 1, found \
                 {found}"
            )),
            None => {
                let is_last = !table.has_null(&name);
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
             without it: --columns '{}'",
            flags.join(", else "),
            shape.mapping()
        ));
    }
    Ok(flags)
}

/// Why a row is incorrect, else NULL: its first flag that is not NULL is false or 0.
pub(crate) fn fault(schema: &Schema, flags: &[String]) -> Result<Option<Expr>> {
    let faults = flags.iter().map(|flag| fault_of(flag, schema.field_with_name(flag)?.data_type()));
    let faults = faults.collect::<Result<Vec<_>>>()?;
    let [first, others @ ..] = faults.as_slice() else { return Ok(None) };
    let mut case = when(column(&flags[0]).is_not_null(), first.clone());
    for (flag, fault) in flags[1..].iter().zip(others) {
        case = case.when(column(flag).is_not_null(), fault.clone());
    }
    Ok(Some(if others.is_empty() { first.clone() } else { case.end()? }))
}

fn fault_of(flag: &str, kind: &DataType) -> Result<Expr> {
    let is_wrong = match kind {
        DataType::Boolean => column(flag).is_false(),
        DataType::Null => lit(false),
        _ => cast(column(flag), DataType::Float64).eq(lit(0.0)),
    };
    when(is_wrong, concat(vec![lit(format!("column {flag} is ")), text(column(flag)), lit(": the row is not correct")]))
        .end()
}

/// The first value that is neither 0 nor 1.
async fn other_value(session: &dyn Session, table: &FilesTable, name: &str) -> Result<Option<String>> {
    let value = cast(column(name), DataType::Float64);
    let is_other = value.clone().not_eq(lit(0.0)).and(value.not_eq(lit(1.0)));
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
