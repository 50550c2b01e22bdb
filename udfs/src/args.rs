//! Arguments of SQL functions: every physical form of a value is coerced to one, so that a function reads one type.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs};

/// The logical type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arg {
    /// Utf8, LargeUtf8, Utf8View or a dictionary of one of them; read as Utf8View.
    Text,
    /// An integer of any width; read as Int64.
    Int,
    /// A number of any kind; read as Float64.
    Float,
    /// A list of texts; read as List\<Utf8View>.
    TextList,
    /// A list of integers; read as List\<Int64>.
    IntList,
    /// A list of numbers; read as List\<Float64>.
    FloatList,
}

impl Arg {
    fn physical(self) -> DataType {
        let list = |item: Arg| DataType::List(Arc::new(Field::new_list_field(item.physical(), true)));
        match self {
            Arg::Text => DataType::Utf8View,
            Arg::Int => DataType::Int64,
            Arg::Float => DataType::Float64,
            Arg::TextList => list(Arg::Text),
            Arg::IntList => list(Arg::Int),
            Arg::FloatList => list(Arg::Float),
        }
    }

    /// The type that an argument of this type is cast to. An integer beyond 63 bits is a bad row, not a failed query, so
    /// these are not cast by the engine but read by [`arrays`].
    fn read_as(self, given: &DataType) -> DataType {
        match (self, given) {
            (Arg::Int, DataType::UInt64) => DataType::UInt64,
            (Arg::IntList, DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _)) => {
                DataType::List(Arc::new(Field::new_list_field(Arg::Int.read_as(f.data_type()), true)))
            }
            _ => self.physical(),
        }
    }

    fn accepts(self, given: &DataType) -> bool {
        use DataType::{Dictionary, FixedSizeList, LargeList, LargeUtf8, List, Null, Utf8, Utf8View};
        match (self, given) {
            (_, Null) => true,
            (Arg::Text, Utf8 | LargeUtf8 | Utf8View) => true,
            (Arg::Text, Dictionary(_, value)) => self.accepts(value),
            (Arg::Int, given) => given.is_integer(),
            (Arg::Float, given) => given.is_numeric(),
            (Arg::TextList, List(f) | LargeList(f) | FixedSizeList(f, _)) => Arg::Text.accepts(f.data_type()),
            (Arg::IntList, List(f) | LargeList(f) | FixedSizeList(f, _)) => Arg::Int.accepts(f.data_type()),
            (Arg::FloatList, List(f) | LargeList(f) | FixedSizeList(f, _)) => Arg::Float.accepts(f.data_type()),
            _ => false,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Arg::Text => "a string",
            Arg::Int => "an integer",
            Arg::Float => "a number",
            Arg::TextList => "a list of strings",
            Arg::IntList => "a list of integers",
            Arg::FloatList => "a list of numbers",
        }
    }
}

/// The types that the arguments of `function` are cast to. `expected` names each argument; the last
/// `expected.len() - required` may be left out.
///
/// # Errors
/// A planning error that names the function and the argument if their number or a type is wrong.
pub fn coerce(function: &str, expected: &[(&str, Arg)], required: usize, given: &[DataType]) -> Result<Vec<DataType>> {
    if given.len() < required || given.len() > expected.len() {
        let names = expected.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return plan_err!("{function}({names}) was given {} arguments", given.len());
    }
    let mut types = Vec::with_capacity(given.len());
    for ((name, arg), data_type) in expected.iter().zip(given) {
        if !arg.accepts(data_type) {
            return plan_err!("argument {name} of {function} must be {}, found {data_type}", arg.describe());
        }
        types.push(arg.read_as(data_type));
    }
    Ok(types)
}

/// All arguments as arrays of the batch's length. Integers beyond 63 bits are NULL.
pub fn arrays(args: &ScalarFunctionArgs) -> Result<Vec<ArrayRef>> {
    let read = |arg: &ColumnarValue| {
        let array = arg.to_array(args.number_rows)?;
        Ok(match array.data_type() {
            DataType::UInt64 => cast(&array, &Arg::Int.physical())?,
            DataType::List(item) if *item.data_type() == DataType::UInt64 => cast(&array, &Arg::IntList.physical())?,
            _ => array,
        })
    };
    args.args.iter().map(read).collect()
}

/// A coerced [`Arg::Text`] argument.
pub fn texts(array: &ArrayRef) -> &StringViewArray {
    array.as_string_view()
}

/// A coerced [`Arg::Int`] argument.
pub fn ints(array: &ArrayRef) -> &Int64Array {
    array.as_primitive::<Int64Type>()
}

/// A coerced [`Arg::Float`] argument.
pub fn floats(array: &ArrayRef) -> &Float64Array {
    array.as_primitive::<Float64Type>()
}

/// An integer that may be NULL.
pub fn int_at(array: &Int64Array, row: usize) -> Option<i64> {
    array.is_valid(row).then(|| array.value(row))
}

/// A number from 0 to 1; None where it is NULL, NaN or outside.
pub fn from_0_to_1_at(array: &Float64Array, row: usize) -> Option<f64> {
    array.is_valid(row).then(|| array.value(row)).filter(|number| (0.0..=1.0).contains(number))
}

/// Refuses a query in which argument `place` is written as a number that is not from 0 to 1. In a column such a number
/// is a bad row and gives NULL.
///
/// # Errors
/// A planning error that names the function and the argument.
pub fn refuse_literal_outside_0_to_1(
    function: &str,
    name: &str,
    given: &ReturnFieldArgs<'_>,
    place: usize,
) -> Result<()> {
    let Some(Some(literal)) = given.scalar_arguments.get(place) else { return Ok(()) };
    match literal.cast_to(&DataType::Float64)? {
        ScalarValue::Float64(Some(number)) if !(0.0..=1.0).contains(&number) => {
            plan_err!("argument {name} of {function} must be a number from 0 to 1, found {number}")
        }
        _ => Ok(()),
    }
}

/// Numbers of steps, from 1, as indices; None if one of them is NULL or names none of `steps` steps.
pub fn zero_based(numbers: &[Option<i64>], steps: usize) -> Option<Vec<usize>> {
    let index = |number: &Option<i64>| usize::try_from((*number)?).ok()?.checked_sub(1).filter(|index| *index < steps);
    numbers.iter().map(index).collect()
}

/// Indices of steps as lists of numbers, from 1.
pub fn one_based_lists(rows: Vec<Option<Vec<usize>>>) -> ArrayRef {
    let numbers = |row: Vec<usize>| row.into_iter().map(|index| Some(index as i64 + 1));
    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows.into_iter().map(|row| row.map(numbers))))
}

/// A text that may be NULL.
pub fn text_at(array: &StringViewArray, row: usize) -> Option<&str> {
    array.is_valid(row).then(|| array.value(row))
}

/// A coerced list argument, read row by row.
pub struct Lists<'a> {
    list: &'a ListArray,
}

impl<'a> Lists<'a> {
    /// A coerced [`Arg::TextList`], [`Arg::IntList`] or [`Arg::FloatList`] argument.
    pub fn new(array: &'a ArrayRef) -> Self {
        Self { list: array.as_list::<i32>() }
    }

    fn range(&self, row: usize) -> Option<std::ops::Range<usize>> {
        let offsets = self.list.value_offsets();
        self.list.is_valid(row).then(|| offsets[row] as usize..offsets[row + 1] as usize)
    }

    /// The texts of one row; NULL items are empty texts, a NULL list is None.
    pub fn texts(&self, row: usize) -> Option<Vec<&'a str>> {
        let items = self.list.values().as_string_view();
        Some(self.range(row)?.map(|i| text_at(items, i).unwrap_or_default()).collect())
    }

    /// The integers of one row; NULL items are None, a NULL list is None.
    pub fn ints(&self, row: usize) -> Option<Vec<Option<i64>>> {
        let items = self.list.values().as_primitive::<Int64Type>();
        Some(self.range(row)?.map(|i| items.is_valid(i).then(|| items.value(i))).collect())
    }

    /// The numbers of one row; NULL items are None, a NULL list is None.
    pub fn floats(&self, row: usize) -> Option<Vec<Option<f64>>> {
        let items = self.list.values().as_primitive::<Float64Type>();
        Some(self.range(row)?.map(|i| items.is_valid(i).then(|| items.value(i))).collect())
    }
}
