//! Lists and structs as text, for formats that have neither.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::LineDelimited;
use datafusion::common::exec_datafusion_err;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarUDF, Volatility, create_udf};

pub(crate) fn as_json(rows: DataFrame) -> Result<DataFrame> {
    if !rows.schema().fields().iter().any(|field| field.data_type().is_nested()) {
        return Ok(rows);
    }
    let columns = rows.schema().iter().map(|(table, field)| {
        let column = Expr::from((table, field));
        match field.data_type().is_nested() {
            true => json(field.data_type()).call(vec![column]).alias_qualified(table.cloned(), field.name()),
            false => column,
        }
    });
    let columns = columns.collect::<Vec<_>>();
    rows.select(columns)
}

fn json(nested: &DataType) -> ScalarUDF {
    let call = |values: &[ColumnarValue]| {
        let values = ColumnarValue::values_to_arrays(values)?;
        Ok(ColumnarValue::Array(Arc::new(texts(&values[0])?)))
    };
    create_udf("as_json", vec![nested.clone()], DataType::Utf8, Volatility::Immutable, Arc::new(call))
}

/// The text around the value of an object whose only key is empty.
const AROUND: (&str, &str) = ("{\"\":", "}");

fn texts(values: &ArrayRef) -> Result<StringArray> {
    let batch = RecordBatch::try_from_iter_with_nullable([("", Arc::clone(values), true)])?;
    let mut written = Vec::new();
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut written);
    writer.write(&batch)?;
    writer.finish()?;
    drop(writer);
    let written = String::from_utf8(written).map_err(|error| exec_datafusion_err!("a row as JSON: {error}"))?;
    let value = |line: &str| {
        let value = line.strip_prefix(AROUND.0)?.strip_suffix(AROUND.1)?;
        (value != "null").then(|| value.to_string())
    };
    Ok(written.lines().map(value).collect())
}
