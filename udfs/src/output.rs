//! Arrays of a function's results.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, ListArray, StringArray, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

pub trait IntoArray: Send + Sized {
    /// Builds the array of these rows. Fails if the values do not fit their type.
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef>;

    fn data_type() -> Result<DataType> {
        Ok(Self::array(Vec::new())?.data_type().clone())
    }
}

/// The results of a function: each row's may borrow from its arguments.
pub(crate) trait Results: 'static {
    type Row<'a>: IntoArray;
}

impl<T: IntoArray + 'static> Results for T {
    type Row<'a> = T;
}

pub(crate) struct Text;

impl Results for Text {
    type Row<'a> = Cow<'a, str>;
}

pub(crate) struct Texts;

impl Results for Texts {
    type Row<'a> = Vec<Option<Cow<'a, str>>>;
}

pub(crate) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

pub(crate) fn structs(columns: Vec<(&str, ArrayRef)>, valid: Option<NullBuffer>) -> Result<ArrayRef> {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let fields = columns.iter().map(field).collect();
    Ok(Arc::new(StructArray::try_new(fields, columns.into_iter().map(|(_, column)| column).collect(), valid)?))
}

pub(crate) fn column<T: IntoArray>(values: impl Iterator<Item = Option<T>>) -> Result<ArrayRef> {
    T::array(values.collect())
}

/// Writes a row as a struct of these fields, each an Option.
macro_rules! struct_output {
    ($row:ident: $type:ty => $($name:literal: $value:expr),+ $(,)?) => {
        impl $crate::output::IntoArray for $type {
            fn array(rows: Vec<Option<Self>>) -> datafusion::common::Result<datafusion::arrow::array::ArrayRef> {
                let columns = vec![
                    $(($name, $crate::output::column(rows.iter().map(|row| row.as_ref().and_then(|$row| $value)))?)),+
                ];
                $crate::output::structs(columns, Some(rows.iter().map(Option::is_some).collect()))
            }
        }
    };
}

pub(crate) use struct_output;

macro_rules! outputs {
    ($($value:ty => $array:ty;)*) => {
        $(impl IntoArray for $value {
            fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
                Ok(Arc::new(<$array>::from_iter(rows)))
            }
        })*
    };
}

outputs! {
    Cow<'_, str> => StringArray;
    &str => StringArray;
    bool => BooleanArray;
    i32 => Int32Array;
    i64 => Int64Array;
    f32 => Float32Array;
    f64 => Float64Array;
}

impl<T: IntoArray> IntoArray for Option<T> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        column(rows.into_iter().map(Option::flatten))
    }
}

impl<T: IntoArray> IntoArray for Vec<T> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)));
        let valid = rows.iter().map(Option::is_some).collect();
        let items = column(rows.into_iter().flatten().flatten().map(Some))?;
        let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        Ok(Arc::new(ListArray::try_new(item, offsets, items, Some(valid))?))
    }
}

/// Indices of steps, from 0; the numbers in SQL start at 1.
#[derive(Clone)]
pub struct Numbers(pub Vec<usize>);

impl IntoArray for Numbers {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let numbers = |row: Self| row.0.into_iter().map(|index| index as i64 + 1).collect::<Vec<_>>();
        column(rows.into_iter().map(|row| row.map(numbers)))
    }
}

/// A turn of a conversation. A list of turns has the format of trainers, List\<Struct\<role, content>>.
pub(crate) struct Turn {
    pub role: &'static str,
    pub content: String,
}

struct_output!(turn: Turn => "role": Some(turn.role), "content": Some(turn.content.as_str()));
