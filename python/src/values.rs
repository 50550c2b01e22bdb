//! Python values as arrays, and arrays as Python values.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, ListArray, NullArray, StringViewArray,
    StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Float64Type, Int64Type, UInt64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};

use crate::engine::{ArgumentError, Error};

type Object<'py> = Bound<'py, PyAny>;

/// How deep lists and dicts may be nested. A list that holds itself has no end.
const DEPTH: usize = 64;

/// Copies values into an array of the narrowest type for all of them.
pub(crate) fn array(values: &[Object<'_>]) -> PyResult<ArrayRef> {
    let values: Vec<Option<Object<'_>>> =
        values.iter().map(|value| (!value.is_none()).then(|| value.clone())).collect();
    build(&values, &kind_of(values.iter().flatten(), 0)?)
}

fn kind_of<'a, 'py: 'a>(values: impl Iterator<Item = &'a Object<'py>>, depth: usize) -> PyResult<DataType> {
    values.map(|value| kind_of_one(value, depth)).try_fold(DataType::Null, |kind, next| wider(kind, next?))
}

fn kind_of_one(value: &Object<'_>, depth: usize) -> PyResult<DataType> {
    if depth > DEPTH {
        return Err(ArgumentError::new_err(format!(
            "expected lists and dicts of at most {DEPTH} levels, found more: check whether a list contains itself"
        )));
    }
    if value.is_none() {
        return Ok(DataType::Null);
    }
    if value.is_instance_of::<PyString>() {
        return Ok(DataType::Utf8View);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(DataType::Boolean);
    }
    if let Some(items) = items(value) {
        return Ok(DataType::List(Arc::new(Field::new_list_field(kind_of(items.iter(), depth + 1)?, true))));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let field = |(name, value): (Object<'_>, Object<'_>)| {
            Ok(Field::new(name.extract::<String>()?, kind_of_one(&value, depth + 1)?, true))
        };
        return Ok(DataType::Struct(dict.iter().map(field).collect::<PyResult<Fields>>()?));
    }
    if value.extract::<i64>().is_ok() {
        return Ok(DataType::Int64);
    }
    if value.extract::<f64>().is_ok() {
        return Ok(DataType::Float64);
    }
    let found = value.get_type().name()?;
    Err(ArgumentError::new_err(format!(
        "expected text, numbers, lists or dicts, or Arrow data, found a value of type {found}"
    )))
}

/// Returns the items of a list or tuple.
fn items<'py>(value: &Object<'py>) -> Option<Vec<Object<'py>>> {
    if let Ok(list) = value.cast::<PyList>() {
        return Some(list.iter().collect());
    }
    value.cast::<PyTuple>().ok().map(|tuple| tuple.iter().collect())
}

fn wider(one: DataType, other: DataType) -> PyResult<DataType> {
    match (one, other) {
        (one, other) if one == other => Ok(one),
        (DataType::Null, kind) | (kind, DataType::Null) => Ok(kind),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => Ok(DataType::Float64),
        (DataType::List(one), DataType::List(other)) => {
            let item = wider(one.data_type().clone(), other.data_type().clone())?;
            Ok(DataType::List(Arc::new(Field::new_list_field(item, true))))
        }
        (DataType::Struct(one), DataType::Struct(other)) => {
            let mut fields: Vec<Field> = one.iter().map(|field| field.as_ref().clone()).collect();
            for field in &other {
                match fields.iter_mut().find(|known| known.name() == field.name()) {
                    Some(known) => {
                        *known =
                            Field::new(field.name(), wider(known.data_type().clone(), field.data_type().clone())?, true)
                    }
                    None => fields.push(field.as_ref().clone()),
                }
            }
            Ok(DataType::Struct(fields.into()))
        }
        (one, other) => {
            let found = format!("{} and {}", python_type(&one), python_type(&other));
            Err(ArgumentError::new_err(format!("a column has values of one type, found {found}")))
        }
    }
}

/// The type of Python that [`array`] reads as this type.
fn python_type(kind: &DataType) -> &'static str {
    match kind {
        DataType::Utf8View => "str",
        DataType::Boolean => "bool",
        DataType::Int64 => "int",
        DataType::Float64 => "float",
        DataType::Struct(_) => "dict",
        _ => "list",
    }
}

fn build(values: &[Option<Object<'_>>], kind: &DataType) -> PyResult<ArrayRef> {
    fn each<'py, T>(
        values: &[Option<Object<'py>>],
        read: impl Fn(&Object<'py>) -> PyResult<T>,
    ) -> PyResult<Vec<Option<T>>> {
        values.iter().map(|value| value.as_ref().map(&read).transpose()).collect()
    }
    Ok(match kind {
        DataType::Boolean => Arc::new(BooleanArray::from(each(values, |value| value.extract())?)),
        DataType::Int64 => Arc::new(Int64Array::from(each(values, |value| value.extract())?)),
        DataType::Float64 => Arc::new(Float64Array::from(each(values, |value| value.extract())?)),
        DataType::Utf8View => {
            let texts = values.iter().map(|value| value.as_ref().map(|value| value.cast::<PyString>()).transpose());
            let texts = texts.collect::<Result<Vec<_>, _>>()?;
            let texts = texts.iter().map(|text| text.map(|text| text.to_str()).transpose());
            Arc::new(StringViewArray::from_iter(texts.collect::<PyResult<Vec<_>>>()?))
        }
        DataType::List(field) => {
            let lists: Vec<Option<Vec<Object<'_>>>> = values.iter().map(|value| items(value.as_ref()?)).collect();
            let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.as_ref().map_or(0, Vec::len)));
            let valid: NullBuffer = lists.iter().map(Option::is_some).collect();
            let flat: Vec<_> =
                lists.into_iter().flatten().flatten().map(|item| (!item.is_none()).then_some(item)).collect();
            let flat = build(&flat, field.data_type())?;
            Arc::new(ListArray::try_new(Arc::clone(field), offsets, flat, Some(valid)).map_err(internal)?)
        }
        DataType::Struct(fields) => {
            let valid: NullBuffer = values.iter().map(Option::is_some).collect();
            let column = |field: &Arc<Field>| {
                let values = values.iter().map(|value| {
                    let Some(Ok(dict)) = value.as_ref().map(|value| value.cast::<PyDict>()) else { return Ok(None) };
                    Ok(dict.get_item(field.name())?.filter(|value| !value.is_none()))
                });
                build(&values.collect::<PyResult<Vec<_>>>()?, field.data_type())
            };
            let columns = fields.iter().map(column).collect::<PyResult<Vec<_>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, Some(valid)).map_err(internal)?)
        }
        _ => Arc::new(NullArray::new(values.len())),
    })
}

/// Returns the values of an array as Python objects.
pub(crate) fn objects<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Vec<Object<'py>>> {
    let as_type = |kind: &DataType| cast(array, kind).map_err(internal);
    match array.data_type() {
        DataType::Null => Ok((0..array.len()).map(|_| py.None().into_bound(py)).collect()),
        DataType::Boolean => array.as_boolean().iter().map(|value| value.into_bound_py_any(py)).collect(),
        DataType::UInt64 => {
            array.as_primitive::<UInt64Type>().iter().map(|value| value.into_bound_py_any(py)).collect()
        }
        kind if kind.is_integer() => {
            let numbers = as_type(&DataType::Int64)?;
            numbers.as_primitive::<Int64Type>().iter().map(|value| value.into_bound_py_any(py)).collect()
        }
        kind if kind.is_floating() => {
            let numbers = as_type(&DataType::Float64)?;
            numbers.as_primitive::<Float64Type>().iter().map(|value| value.into_bound_py_any(py)).collect()
        }
        DataType::Utf8 => array.as_string::<i32>().iter().map(|value| value.into_bound_py_any(py)).collect(),
        kind if kind.is_string() => {
            let texts = as_type(&DataType::Utf8View)?;
            texts.as_string_view().iter().map(|value| value.into_bound_py_any(py)).collect()
        }
        DataType::Dictionary(_, kind) => objects(py, &as_type(kind)?),
        DataType::List(_) => {
            let list = |items: Option<ArrayRef>| match items {
                Some(items) => Ok(PyList::new(py, objects(py, &items)?)?.into_any()),
                None => Ok(py.None().into_bound(py)),
            };
            array.as_list::<i32>().iter().map(list).collect()
        }
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) | DataType::ListView(item) => {
            objects(py, &as_type(&DataType::List(Arc::clone(item)))?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(|column| objects(py, column));
            let columns = columns.collect::<PyResult<Vec<_>>>()?;
            let row = |row: usize| {
                if array.is_null(row) {
                    return Ok(py.None().into_bound(py));
                }
                let dict = PyDict::new(py);
                for (field, column) in fields.iter().zip(&columns) {
                    dict.set_item(field.name(), &column[row])?;
                }
                Ok(dict.into_any())
            };
            (0..array.len()).map(row).collect()
        }
        // Dates and other types of queries, as SQL prints them.
        _ => {
            let options = FormatOptions::default();
            let texts = ArrayFormatter::try_new(array, &options).map_err(internal)?;
            let text = |row| (!array.is_null(row)).then(|| texts.value(row).to_string()).into_bound_py_any(py);
            (0..array.len()).map(text).collect()
        }
    }
}

fn internal(error: impl ToString) -> PyErr {
    Error::new_err(error.to_string())
}
