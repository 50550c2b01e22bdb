//! What becomes of a pipeline's rows: output or reject.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use datafusion::arrow::compute::{cast, filter_record_batch, not};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, exec_datafusion_err};

use super::plan::ORIGINAL;
use crate::delta_types::{delta_name, delta_type};

/// The columns of a pipeline that say what becomes of a row; the output does not hold them.
const STATUS: &str = "status";
const ERROR: &str = "error";
/// The status of a row that is fine, beside NULL.
const OK: &str = "ok";

/// Divides batches of a pipeline (whose last column is [`ORIGINAL`]) into output and rejects.
#[derive(Debug)]
pub struct Rows {
    /// Columns of the output: the pipeline's own, then the original ones.
    pub output: SchemaRef,
    /// Columns of the rejects: source, status and error, then the original ones.
    pub rejects: SchemaRef,
    output_columns: Vec<From>,
    rejects_columns: Vec<From>,
}

/// Where a column of a table comes from.
#[derive(Debug, Clone)]
enum From {
    Pipeline(String),
    Original(usize),
}

/// A batch, divided.
pub struct Divided {
    /// Rows of the output.
    pub output: RecordBatch,
    /// Rejected rows.
    pub rejects: RecordBatch,
}

impl Rows {
    /// Plans the division. `schema` is the pipeline's, `originals` the names that the original columns have in the
    /// files, in the order of the fields of [`ORIGINAL`].
    pub fn new(schema: &Schema, originals: &[String]) -> Result<Self> {
        let mut output = Vec::new();
        let mut rejects = Vec::new();
        for field in schema.fields() {
            match field.name().as_str() {
                ORIGINAL => {}
                STATUS | ERROR => rejects.push((field.name().clone(), text(), From::Pipeline(field.name().clone()))),
                name => {
                    let column = (delta_name(name), delta_type(field.data_type()), From::Pipeline(name.to_string()));
                    if name == "source" {
                        rejects.insert(0, column.clone());
                    }
                    output.push(column);
                }
            }
        }
        for name in [STATUS, ERROR] {
            if !rejects.iter().any(|(held, _, _)| held == name) {
                rejects.push((name.to_string(), text(), From::Pipeline(name.to_string())));
            }
        }
        if let DataType::Struct(fields) = schema.field_with_name(ORIGINAL)?.data_type() {
            for (index, (name, field)) in originals.iter().zip(fields).enumerate() {
                for columns in [&mut output, &mut rejects] {
                    let name = free_name(name, columns);
                    columns.push((name, delta_type(field.data_type()), From::Original(index)));
                }
            }
        }
        let (output, output_columns) = unzip(output);
        let (rejects, rejects_columns) = unzip(rejects);
        Ok(Self { output, rejects, output_columns, rejects_columns })
    }

    /// Divides a batch by its status.
    pub fn divide(&self, batch: &RecordBatch) -> Result<Divided> {
        let is_reject = rejected(batch)?;
        let output = filter_record_batch(batch, &not(&is_reject)?)?;
        let rejects = filter_record_batch(batch, &is_reject)?;
        Ok(Divided {
            output: gather(&output, &self.output, &self.output_columns)?,
            rejects: gather(&rejects, &self.rejects, &self.rejects_columns)?,
        })
    }
}

fn text() -> DataType {
    DataType::Utf8
}

fn unzip(columns: Vec<(String, DataType, From)>) -> (SchemaRef, Vec<From>) {
    let (fields, origins): (Vec<_>, Vec<_>) =
        columns.into_iter().map(|(name, data_type, from)| (Field::new(name, data_type, true), from)).unzip();
    (Arc::new(Schema::new(fields)), origins)
}

/// A table's column names are equal when they differ in case only.
fn free_name(name: &str, taken: &[(String, DataType, From)]) -> String {
    let mut free = delta_name(name);
    while taken.iter().any(|(held, _, _)| held.eq_ignore_ascii_case(&free)) {
        free = format!("source_{free}");
    }
    free
}

/// True for rows whose status is neither NULL nor ok.
fn rejected(batch: &RecordBatch) -> Result<BooleanArray> {
    let Some(status) = batch.column_by_name(STATUS) else {
        return Ok(BooleanArray::from(vec![false; batch.num_rows()]));
    };
    let status = cast(status, &DataType::Utf8)?;
    Ok(status.as_string::<i32>().iter().map(|status| Some(status.is_some_and(|status| status != OK))).collect())
}

fn gather(batch: &RecordBatch, schema: &SchemaRef, columns: &[From]) -> Result<RecordBatch> {
    let original = batch.column_by_name(ORIGINAL).and_then(|column| column.as_struct_opt());
    let arrays = columns
        .iter()
        .zip(schema.fields())
        .map(|(from, field)| {
            let found = match from {
                From::Pipeline(name) => batch.column_by_name(name).cloned(),
                From::Original(index) => original.map(|original| Arc::clone(original.column(*index))),
            };
            match found {
                Some(array) => Ok(cast(&array, field.data_type())?),
                // A pipeline without a status rejects nothing.
                None if batch.num_rows() == 0 => Ok(Arc::new(StringArray::new_null(0)) as ArrayRef),
                None => Err(exec_datafusion_err!("the pipeline's column {} is missing from its result", field.name())),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), arrays)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray, StructArray};
    use datafusion::arrow::datatypes::Fields;

    use super::*;

    fn batch(with_status: bool) -> RecordBatch {
        let fields = Fields::from(vec![
            Field::new("Cot", DataType::Utf8View, true),
            Field::new("status", DataType::UInt8, true),
        ]);
        let original = StructArray::new(
            fields,
            vec![
                Arc::new(StringViewArray::from(vec!["x", "y", "z"])),
                Arc::new(datafusion::arrow::array::UInt8Array::from(vec![1, 2, 3])),
            ],
            None,
        );
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("source", Arc::new(Int64Array::from(vec![0, 1, 2]))),
            ("cot", Arc::new(StringViewArray::from(vec!["a", "b", "c"]))),
        ];
        if with_status {
            columns.push(("status", Arc::new(StringArray::from(vec![None, Some("no_tags"), Some("ok")]))));
            columns.push(("error", Arc::new(StringArray::from(vec![None, Some("no tag"), None]))));
        }
        columns.push((ORIGINAL, Arc::new(original)));
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
    }

    #[test]
    fn a_row_is_a_reject_if_its_status_is_neither_null_nor_ok() {
        let batch = batch(true);
        let rows = Rows::new(&batch.schema(), &["Cot".to_string(), "status".to_string()]).unwrap();
        let divided = rows.divide(&batch).unwrap();
        let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        assert_eq!(names(&rows.output), ["source", "cot", "source_Cot", "status"]);
        assert_eq!(names(&rows.rejects), ["source", "status", "error", "Cot", "source_status"]);
        assert_eq!(divided.output.num_rows(), 2);
        assert_eq!(divided.rejects.num_rows(), 1);
        assert_eq!(divided.rejects.column(3).as_string::<i32>().value(0), "y");
    }

    #[test]
    fn a_pipeline_without_a_status_rejects_nothing() {
        let batch = batch(false);
        let rows = Rows::new(&batch.schema(), &["Cot".to_string(), "n".to_string()]).unwrap();
        let divided = rows.divide(&batch).unwrap();
        assert_eq!((divided.output.num_rows(), divided.rejects.num_rows()), (3, 0));
    }
}
