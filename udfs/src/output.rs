//! Arrays of a function's results.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float32Builder, Float64Array, Int64Array, ListArray, ListBuilder, StringArray,
    StringBuilder, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int64Type};
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

/// Cuts `items` into lists of these lengths; None gives NULL.
pub(crate) fn lists(items: ArrayRef, lengths: &[Option<usize>]) -> Result<ArrayRef> {
    let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0)));
    let valid = lengths.iter().map(Option::is_some).collect();
    Ok(Arc::new(ListArray::try_new(item, offsets, items, Some(valid))?))
}

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
    bool => BooleanArray;
    i64 => Int64Array;
    f64 => Float64Array;
}

impl IntoArray for Vec<f64> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let rows = rows.into_iter().map(|row| row.map(|numbers| numbers.into_iter().map(Some).collect::<Vec<_>>()));
        Ok(Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows)))
    }
}

impl IntoArray for Vec<Option<f32>> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        Ok(Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows)))
    }
}

impl IntoArray for Vec<Option<Vec<f32>>> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let mut lists = ListBuilder::new(ListBuilder::new(Float32Builder::new()));
        let numbers = |numbers: Vec<f32>| numbers.into_iter().map(Some);
        rows.into_iter()
            .for_each(|row| lists.append_option(row.map(|row| row.into_iter().map(move |step| step.map(numbers)))));
        Ok(Arc::new(lists.finish()))
    }
}

impl IntoArray for Vec<Option<Cow<'_, str>>> {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let mut lists = ListBuilder::new(StringBuilder::new());
        rows.into_iter().for_each(|row| lists.append_option(row));
        Ok(Arc::new(lists.finish()))
    }
}

/// Indices of steps, from 0; the numbers in SQL start at 1.
pub struct Numbers(pub Vec<usize>);

impl IntoArray for Numbers {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let numbers = |row: Self| row.0.into_iter().map(|index| Some(index as i64 + 1));
        let rows = rows.into_iter().map(|row| row.map(numbers));
        Ok(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows)))
    }
}

/// The speaker and the text of each turn of a conversation. It is written as List\<Struct\<role, content>>, the format of
/// trainers.
pub(crate) struct Messages(pub Vec<(&'static str, String)>);

impl IntoArray for Messages {
    fn array(rows: Vec<Option<Self>>) -> Result<ArrayRef> {
        let lengths: Vec<Option<usize>> = rows.iter().map(|row| row.as_ref().map(|turns| turns.0.len())).collect();
        let (roles, contents): (Vec<&str>, Vec<String>) = rows.into_iter().flatten().flat_map(|turns| turns.0).unzip();
        let columns: Vec<(&str, ArrayRef)> =
            vec![("role", Arc::new(StringArray::from(roles))), ("content", Arc::new(StringArray::from(contents)))];
        lists(structs(columns, None)?, &lengths)
    }
}
