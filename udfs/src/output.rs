//! Arrays of a function's results.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, ListBuilder, StringArray, StringBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::common::Result;

use crate::messages::{conversation_type, conversations};

pub trait Output: Send + Sized {
    fn data_type() -> DataType;

    /// Builds the array of these rows. Fails if the values do not fit their type.
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef>;
}

pub(crate) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

impl Output for &str {
    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        Ok(Arc::new(StringArray::from(rows)))
    }
}

impl Output for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        Ok(Arc::new(StringArray::from(rows)))
    }
}

impl Output for Cow<'_, str> {
    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        Ok(Arc::new(StringArray::from_iter(rows)))
    }
}

impl Output for bool {
    fn data_type() -> DataType {
        DataType::Boolean
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        Ok(Arc::new(BooleanArray::from(rows)))
    }
}

impl Output for i64 {
    fn data_type() -> DataType {
        DataType::Int64
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(rows)))
    }
}

impl Output for f64 {
    fn data_type() -> DataType {
        DataType::Float64
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        Ok(Arc::new(Float64Array::from(rows)))
    }
}

impl Output for Vec<f64> {
    fn data_type() -> DataType {
        list_of(DataType::Float64)
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let rows = rows.into_iter().map(|row| row.map(|numbers| numbers.into_iter().map(Some).collect::<Vec<_>>()));
        Ok(Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows)))
    }
}

impl Output for Vec<Option<&str>> {
    fn data_type() -> DataType {
        list_of(DataType::Utf8)
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let mut lists = ListBuilder::new(StringBuilder::new());
        rows.into_iter().for_each(|row| lists.append_option(row));
        Ok(Arc::new(lists.finish()))
    }
}

/// Indices of steps, from 0; the numbers in SQL start at 1.
pub struct Numbers(pub Vec<usize>);

impl Output for Numbers {
    fn data_type() -> DataType {
        list_of(DataType::Int64)
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let numbers = |row: Self| row.0.into_iter().map(|index| Some(index as i64 + 1));
        let rows = rows.into_iter().map(|row| row.map(numbers));
        Ok(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows)))
    }
}

pub(crate) struct Messages(pub Vec<(&'static str, String)>);

impl Output for Messages {
    fn data_type() -> DataType {
        conversation_type()
    }

    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let rows: Vec<Option<&[(&str, String)]>> =
            rows.iter().map(|row| row.as_ref().map(|messages| messages.0.as_slice())).collect();
        Ok(conversations(&rows))
    }
}
