//! Lists and structs as text, for formats that have neither.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::LineDelimited;
use datafusion::common::exec_datafusion_err;
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub(crate) fn as_json(rows: DataFrame) -> Result<DataFrame> {
    if !rows.schema().fields().iter().any(|field| field.data_type().is_nested()) {
        return Ok(rows);
    }
    let json = ScalarUDF::from(Json { signature: Signature::any(1, Volatility::Immutable) });
    let columns = rows.schema().iter().map(|(table, field)| {
        let column = Expr::from((table, field));
        match field.data_type().is_nested() {
            true => json.call(vec![column]).alias_qualified(table.cloned(), field.name()),
            false => column,
        }
    });
    let columns = columns.collect::<Vec<_>>();
    rows.select(columns)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Json {
    signature: Signature,
}

impl ScalarUDFImpl for Json {
    fn name(&self) -> &str {
        "as_json"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = ColumnarValue::values_to_arrays(&args.args)?
            .try_into()
            .map_err(|found: Vec<ArrayRef>| exec_datafusion_err!("as_json takes one value, found {}", found.len()))?;
        Ok(ColumnarValue::Array(Arc::new(texts(&values)?)))
    }
}

/// The text around the only value of an object, whose key is empty.
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
