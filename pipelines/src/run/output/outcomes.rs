//! Divides the rows of a pipeline into output and rejects.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::{cast, filter_record_batch, not};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};

use crate::delta::types::{can_hold, delta_name, delta_type};
use crate::run::plan::ORIGINAL;

/// The status columns of a pipeline, which the output leaves out.
const STATUS: &str = "status";
const ERROR: &str = "error";
const OK: &str = "ok";

/// Divides batches of a pipeline (whose last column is [`ORIGINAL`]) into output and rejects.
#[derive(Debug, Clone)]
pub struct Division {
    /// Columns of the output: those of the pipeline, then the original ones.
    pub output: SchemaRef,
    /// Columns of the rejects: source, status and error, then the original ones.
    pub rejects: SchemaRef,
    /// Pairs of names of original columns: in the files, and in the output (empty if left out).
    pub originals: Vec<(String, String)>,
    output_columns: Vec<Origin>,
    rejects_columns: Vec<Origin>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Pipeline(String),
    Original(usize),
    Missing,
}

type Column = (String, DataType, Origin);

pub struct Divided {
    pub output: RecordBatch,
    pub rejects: RecordBatch,
}

impl Division {
    /// Plans the division. `schema` is that of the pipeline. `originals` are the names of the original columns in the
    /// files, in the order of the fields of [`ORIGINAL`], each with whether the output has it; rejects have all.
    /// `held_output` and `held_rejects` are the columns of existing tables: columns that the rows lack are NULL,
    /// columns that the tables lack come last.
    ///
    /// # Errors
    /// If two columns would have the same name in a table, if a table cannot hold the type of a column, or if it has
    /// the column with another type.
    pub fn new(
        schema: &Schema,
        originals: &[(String, bool)],
        held_output: Option<&Schema>,
        held_rejects: Option<&Schema>,
    ) -> Result<Self> {
        let mut output: Vec<Column> = Vec::new();
        let mut rejects: Vec<Column> = Vec::new();
        for field in schema.fields() {
            match field.name().as_str() {
                ORIGINAL => {}
                STATUS | ERROR => rejects.push((field.name().clone(), text(), Origin::Pipeline(field.name().clone()))),
                name => {
                    let column = (delta_name(name), delta_type(field.data_type()), Origin::Pipeline(name.to_string()));
                    let clashing = output.iter().find(|(held, ..)| held.eq_ignore_ascii_case(&column.0));
                    if let Some((.., Origin::Pipeline(held))) = clashing {
                        return plan_err!(
                            "the pipeline's columns {name} and {held} would have one name in a table, which ignores case and \
                             replaces characters such as blanks with _: rename one with AS"
                        );
                    }
                    if name == "source" {
                        rejects.insert(0, column.clone());
                    }
                    output.push(column);
                }
            }
        }
        for name in [STATUS, ERROR] {
            if !rejects.iter().any(|(held, ..)| held == name) {
                rejects.push((name.to_string(), text(), Origin::Pipeline(name.to_string())));
            }
        }
        let mut named = Vec::new();
        if let DataType::Struct(fields) = schema.field_with_name(ORIGINAL)?.data_type() {
            for (index, ((name, is_held), field)) in originals.iter().zip(fields).enumerate() {
                let column = |columns: &[Column]| {
                    (free_name(name, columns), delta_type(field.data_type()), Origin::Original(index))
                };
                rejects.push(column(&rejects));
                let mut held = String::new();
                if *is_held {
                    output.push(column(&output));
                    held = output.last().map(|(column, ..)| column.clone()).unwrap_or_default();
                }
                named.push((name.clone(), held));
            }
        }
        let (output, output_columns) = conform(output, held_output)?;
        let (rejects, rejects_columns) = conform(rejects, held_rejects)?;
        Ok(Self { output, rejects, originals: named, output_columns, rejects_columns })
    }

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

/// The columns of a table in its order, followed by the new ones.
fn conform(columns: Vec<Column>, held: Option<&Schema>) -> Result<(SchemaRef, Vec<Origin>)> {
    let mut conformed: Vec<Column> = Vec::new();
    for field in held.iter().flat_map(|schema| schema.fields()) {
        let name = field.name().clone();
        let column = match columns.iter().find(|(column, ..)| *column == name) {
            Some((_, found, _)) if found != field.data_type() => {
                return exec_err!(
                    "column {name} is {found} now and {} in the output: cast it in the pipeline, or choose another output",
                    field.data_type()
                );
            }
            Some(column) => column.clone(),
            None => (name, field.data_type().clone(), Origin::Missing),
        };
        conformed.push(column);
    }
    let new = columns.into_iter().filter(|column| held.is_none_or(|held| held.field_with_name(&column.0).is_err()));
    conformed.extend(new.collect::<Vec<_>>());
    let (fields, origins): (Vec<_>, Vec<_>) =
        conformed.into_iter().map(|(name, data_type, origin)| (Field::new(name, data_type, true), origin)).unzip();
    for field in &fields {
        if !can_hold(field.data_type()) {
            return plan_err!(
                "column {} is {}, which a Delta table cannot hold: cast it in the pipeline, or leave it out",
                field.name(),
                field.data_type()
            );
        }
    }
    Ok((Arc::new(Schema::new(fields)), origins))
}

fn free_name(name: &str, taken: &[Column]) -> String {
    let mut free = delta_name(name);
    while taken.iter().any(|(held, ..)| held.eq_ignore_ascii_case(&free)) {
        free = format!("source_{free}");
    }
    free
}

fn rejected(batch: &RecordBatch) -> Result<BooleanArray> {
    let Some(status) = batch.column_by_name(STATUS) else {
        return Ok(BooleanArray::from(vec![false; batch.num_rows()]));
    };
    let status = cast(status, &DataType::Utf8)?;
    Ok(status.as_string::<i32>().iter().map(|status| Some(status.is_some_and(|status| status != OK))).collect())
}

/// Gives a batch the columns of a schema; missing ones are NULL.
pub(crate) fn with_columns(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(column) => Ok(cast(column, field.data_type())?),
        None => Ok(new_null_array(field.data_type(), batch.num_rows())),
    });
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<Vec<_>>>()?)?)
}

fn gather(batch: &RecordBatch, schema: &SchemaRef, columns: &[Origin]) -> Result<RecordBatch> {
    let original = batch.column_by_name(ORIGINAL).and_then(|column| column.as_struct_opt());
    let null = |field: &Field| new_null_array(field.data_type(), batch.num_rows());
    let arrays = columns.iter().zip(schema.fields()).map(|(origin, field)| {
        let found = match origin {
            Origin::Pipeline(name) => batch.column_by_name(name).cloned(),
            Origin::Original(index) => original.map(|original| Arc::clone(original.column(*index))),
            Origin::Missing => Some(null(field)),
        };
        match found {
            Some(array) => Ok(cast(&array, field.data_type())?),
            // A pipeline without a status rejects nothing.
            None if batch.num_rows() == 0 => Ok(null(field)),
            None => Err(exec_datafusion_err!("the result of the pipeline has no column {}", field.name())),
        }
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), arrays)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Fields;
    use datafusion::prelude::SessionContext;

    use crate::run::output::outcomes::*;

    async fn batch(with_status: bool) -> RecordBatch {
        let status = if with_status { "status, error," } else { "" };
        let sql = format!(
            "SELECT source, arrow_cast(cot, 'Utf8View') AS cot, {status} \
             named_struct('Cot', arrow_cast(held, 'Utf8View'), 'status', arrow_cast(n, 'UInt8')) AS {ORIGINAL} FROM (VALUES \
             (0, 'a', NULL, NULL, 'x', 1), (1, 'b', 'no_tags', 'no tag', 'y', 2), (2, 'c', 'ok', NULL, 'z', 3)) \
             AS t (source, cot, status, error, held, n)"
        );
        SessionContext::new().sql(&sql).await.unwrap().collect().await.unwrap().remove(0)
    }

    fn rows_of(batch: &RecordBatch, originals: [(&str, bool); 2], held: Option<&Schema>) -> Result<Division> {
        Division::new(&batch.schema(), &originals.map(|(name, is_held)| (name.to_string(), is_held)), held, None)
    }

    fn names(schema: &Schema) -> Vec<&str> {
        schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    #[tokio::test]
    async fn a_row_is_a_reject_if_its_status_is_neither_null_nor_ok() {
        let batch = batch(true).await;
        let rows = rows_of(&batch, [("Cot", true), ("status", true)], None).unwrap();
        let divided = rows.divide(&batch).unwrap();
        assert_eq!(names(&rows.output), ["source", "cot", "source_Cot", "status"]);
        assert_eq!(names(&rows.rejects), ["source", "status", "error", "Cot", "source_status"]);
        assert_eq!((divided.output.num_rows(), divided.rejects.num_rows()), (2, 1));
        assert_eq!(divided.rejects.column(3).as_string::<i32>().value(0), "y");
        // What is left out of the output is in the rejects.
        let rows = rows_of(&batch, [("Cot", false), ("status", true)], None).unwrap();
        assert_eq!(names(&rows.output), ["source", "cot", "status"]);
        assert_eq!(names(&rows.rejects), ["source", "status", "error", "Cot", "source_status"]);
        assert_eq!(rows.originals[0], ("Cot".to_string(), String::new()));
        assert_eq!(rows.divide(&batch).unwrap().output.num_columns(), 3);
    }

    #[tokio::test]
    async fn a_pipeline_without_a_status_rejects_nothing() {
        let batch = batch(false).await;
        let rows = rows_of(&batch, [("Cot", true), ("n", true)], None).unwrap();
        let divided = rows.divide(&batch).unwrap();
        assert_eq!((divided.output.num_rows(), divided.rejects.num_rows()), (3, 0));
    }

    #[tokio::test]
    async fn columns_match_those_of_a_table_by_name() {
        let batch = batch(true).await;
        let held = ["gone", "cot", "source"].into_iter().zip([DataType::Int64, DataType::Utf8, DataType::Int64]);
        let held = Schema::new(held.map(|(name, kind)| Field::new(name, kind, true)).collect::<Vec<_>>());
        let originals = [("Cot", true), ("status", true)];
        let rows = rows_of(&batch, originals, Some(&held)).unwrap();
        assert_eq!(names(&rows.output), ["gone", "cot", "source", "source_Cot", "status"]);
        let output = rows.divide(&batch).unwrap().output;
        assert_eq!((output.column(0).null_count(), output.column(1).as_string::<i32>().value(0)), (2, "a"));
        let other = Schema::new(vec![Field::new("cot", DataType::Int64, true)]);
        let error = rows_of(&batch, originals, Some(&other)).unwrap_err().to_string();
        assert!(error.contains("column cot is Utf8 now and Int64 in the output"), "{error}");
    }

    #[test]
    fn names_that_clash_and_types_that_delta_lacks_are_refused() {
        let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
        let original = field(ORIGINAL, DataType::Struct(Fields::from(vec![field("n", DataType::Int64)])));
        let refusal = |fields: Vec<Field>| {
            let schema = Schema::new(fields.into_iter().chain([original.clone()]).collect::<Vec<_>>());
            Division::new(&schema, &[("n".to_string(), true)], None, None).unwrap_err().to_string()
        };
        let clash = refusal(vec![field("cot", DataType::Utf8), field("Cot", DataType::Utf8)]);
        assert!(clash.contains("Cot and cot would have one name"), "{clash}");
        let wide = refusal(vec![field("x", DataType::Decimal256(50, 2))]);
        assert!(wide.contains("column x is Decimal256") && wide.contains("cast it"), "{wide}");
    }
}
