//! The SQL functions over Arrow data and Python lists.

use std::sync::Arc;

use asap::failure::Failure;
use asap_udfs::functions::declared;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDFImpl;
use datafusion::physical_plan::collect_partitioned;
use datafusion::prelude::{Expr, SessionContext, ident, lit};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3_arrow::input::AnyArray;

use crate::engine::{self, ArgumentError, Error, failed, settings_of, wait};
use crate::reader::Column;
use crate::values;

/// The name, description, example, arguments and result of a function. Each argument has a name, a kind and a
/// description, and tells whether it is optional. The result is a type of Python.
type Declared = (String, String, String, Vec<(&'static str, &'static str, &'static str, bool)>, String);

/// Return the declarations of all SQL functions of asap.
#[pyfunction]
pub(crate) fn functions() -> PyResult<Vec<Declared>> {
    let functions = declared().map_err(|error| failed(error.into()))?;
    let declared = functions.iter().map(|function| {
        let (about, example) = function.documentation().map_or_else(Default::default, |documentation| {
            (documentation.description.clone(), documentation.sql_example.clone().unwrap_or_default())
        });
        let arguments = function.arguments().iter();
        let arguments = arguments.map(|of| (of.name, of.kind(), of.about, of.is_optional));
        let returns = type_of(&function.return_type(&[])?);
        Ok((function.name().to_string(), about, example, arguments.collect(), returns))
    });
    declared.collect::<Result<_>>().map_err(|error| failed(error.into()))
}

/// The type of the Python objects that [`values::objects`] makes of a type. Items of lists may be None.
fn type_of(kind: &DataType) -> String {
    match kind {
        DataType::Boolean => "bool".to_string(),
        DataType::Utf8 => "str".to_string(),
        kind if kind.is_integer() => "int".to_string(),
        kind if kind.is_floating() => "float".to_string(),
        DataType::List(item) => format!("list[{} | None]", type_of(item.data_type())),
        DataType::Struct(_) => "dict[str, Any]".to_string(),
        _ => "Any".to_string(),
    }
}

/// An argument of a call.
enum Given {
    /// One value per row, in chunks of Arrow data or from a list.
    Column {
        chunks: Vec<ArrayRef>,
        data_type: DataType,
    },
    Constant(ScalarValue),
}

/// The form of the result: that of the arguments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Value,
    List,
    Arrow,
}

/// Call a SQL function. Lists and Arrow data are columns, other values are constants.
#[pyfunction]
pub(crate) fn call<'py>(
    py: Python<'py>,
    name: String,
    arguments: Vec<Bound<'py, PyAny>>,
    settings: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyAny>> {
    let read = arguments.iter().map(given).collect::<PyResult<Vec<_>>>()?;
    let form = read.iter().map(|(form, _)| *form).max().unwrap_or(Form::Value);
    let arguments: Vec<Given> = read.into_iter().map(|(_, argument)| argument).collect();
    let batches = (form > Form::Value).then(|| batches(&arguments)).transpose()?;
    let engine = engine::engine(py)?;
    let session = engine.session(settings_of(settings)?).map_err(failed)?;
    let work = async move {
        let context = session.context.clone();
        let found = compute(&context, &name, arguments, batches).await?;
        session.settle().await?;
        Ok::<_, Failure>(found)
    };
    let (field, chunks) = wait(py, &engine, work)?;
    if form == Form::Arrow {
        return Ok(Bound::new(py, Column { field, chunks })?.into_any());
    }
    let mut objects = Vec::new();
    for chunk in &chunks {
        objects.extend(values::objects(py, chunk)?);
    }
    match form {
        Form::Value => objects.pop().ok_or_else(|| Error::new_err("the function returned no value")),
        _ => Ok(PyList::new(py, objects)?.into_any()),
    }
}

fn given(argument: &Bound<'_, PyAny>) -> PyResult<(Form, Given)> {
    if let Ok(list) = argument.cast::<PyList>() {
        let array = values::array(&list.iter().collect::<Vec<_>>())?;
        return Ok((Form::List, Given::Column { data_type: array.data_type().clone(), chunks: vec![array] }));
    }
    if argument.hasattr("__arrow_c_stream__")? || argument.hasattr("__arrow_c_array__")? {
        let (chunks, field) = argument.extract::<AnyArray>()?.into_chunked_array()?.into_inner();
        return Ok((Form::Arrow, column(chunks, &field)?));
    }
    let array = values::array(std::slice::from_ref(argument))?;
    let constant = ScalarValue::try_from_array(&array, 0).map_err(|error| failed(error.into()))?;
    Ok((Form::Value, Given::Constant(constant)))
}

/// A column of Arrow data. The only column of a table is a column.
fn column(chunks: Vec<ArrayRef>, field: &FieldRef) -> PyResult<Given> {
    match field.data_type() {
        DataType::Struct(fields) if fields.len() == 1 => {
            let chunks = chunks.iter().map(|chunk| Arc::clone(chunk.as_struct().column(0))).collect();
            Ok(Given::Column { chunks, data_type: fields[0].data_type().clone() })
        }
        data_type => Ok(Given::Column { chunks, data_type: data_type.clone() }),
    }
}

/// Cuts the columns into batches of equal rows, without a copy.
fn batches(arguments: &[Given]) -> PyResult<Vec<RecordBatch>> {
    /// As many rows as the engine computes at once.
    const ROWS: usize = 8192;
    let columns = || {
        arguments.iter().enumerate().filter_map(|(place, argument)| match argument {
            Given::Column { chunks, data_type } => Some((place, chunks, data_type)),
            Given::Constant(_) => None,
        })
    };
    let rows: Vec<usize> = columns().map(|(_, chunks, _)| chunks.iter().map(|chunk| chunk.len()).sum()).collect();
    if let Some(other) = rows.iter().find(|other| **other != rows[0]) {
        return Err(ArgumentError::new_err(format!(
            "expected columns with the same number of rows, found {} and {other}",
            rows[0]
        )));
    }
    let mut ends: Vec<usize> = (ROWS..rows[0]).step_by(ROWS).chain([rows[0]]).collect();
    for (_, chunks, _) in columns() {
        ends.extend(chunks.iter().scan(0, |end, chunk| {
            *end += chunk.len();
            Some(*end)
        }));
    }
    ends.sort_unstable();
    ends.dedup();
    let fields = columns().map(|(place, _, data_type)| Field::new(name_of(place), data_type.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut places: Vec<(usize, usize)> = vec![(0, 0); rows.len()];
    let mut start = 0;
    let mut batches = Vec::new();
    for end in ends {
        let cut = columns().zip(&mut places).map(|((_, chunks, data_type), (chunk, offset))| {
            while chunks.get(*chunk).is_some_and(|held| *offset == held.len()) {
                (*chunk, *offset) = (*chunk + 1, 0);
            }
            let from = *offset;
            *offset += end - start;
            chunks.get(*chunk).map_or_else(
                || datafusion::arrow::array::new_empty_array(data_type),
                |held| held.slice(from, end - start),
            )
        });
        let options = RecordBatchOptions::new().with_row_count(Some(end - start));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), cut.collect(), &options);
        batches.push(batch.map_err(|error| Error::new_err(error.to_string()))?);
        start = end;
    }
    Ok(batches)
}

fn name_of(place: usize) -> String {
    format!("argument_{place}")
}

/// Computes the function, in the order of the rows.
async fn compute(
    context: &SessionContext,
    name: &str,
    arguments: Vec<Given>,
    batches: Option<Vec<RecordBatch>>,
) -> Result<(FieldRef, Vec<ArrayRef>)> {
    let function = context.udf(name)?;
    let expr = |(place, argument): (usize, Given)| match argument {
        Given::Column { .. } => ident(name_of(place)),
        Given::Constant(value) => lit(value),
    };
    let call: Expr = function.call(arguments.into_iter().enumerate().map(expr).collect());
    let frame = match batches {
        Some(batches) => {
            let schema = batches[0].schema();
            let parts = context.copied_config().target_partitions();
            let share = batches.len().div_ceil(parts).max(1);
            let mut partitions: Vec<Vec<RecordBatch>> = batches.chunks(share).map(<[_]>::to_vec).collect();
            partitions.resize(parts, vec![]);
            context.read_table(Arc::new(MemTable::try_new(schema, partitions)?))?
        }
        None => context.read_empty()?,
    };
    let plan = frame.select(vec![call.alias(name)])?.create_physical_plan().await?;
    let field = Arc::new(plan.schema().field(0).clone());
    let parts = collect_partitioned(plan, context.task_ctx()).await?;
    let chunks = parts.iter().flatten().filter(|batch| batch.num_rows() > 0);
    Ok((field, chunks.map(|batch| Arc::clone(batch.column(0))).collect()))
}
