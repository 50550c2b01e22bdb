//! The arguments of a function, row by row. Every physical form of a value reads alike.

use asap_lm::{Asked, QuestionAndSteps};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;

use crate::declaration::Arg;
use crate::messages;
use crate::output::list_of;
use crate::reading::turns::{self, Turn, are_turns, is_asked};
use crate::trace::kept_steps;

#[derive(Debug)]
pub enum NoValue {
    /// NULL: an argument is NULL, or has no result.
    Null,
    Failed(DataFusionError),
}

impl From<DataFusionError> for NoValue {
    fn from(error: DataFusionError) -> Self {
        Self::Failed(error)
    }
}

impl From<asap_lm::LmError> for NoValue {
    fn from(error: asap_lm::LmError) -> Self {
        Self::Failed(crate::models::failed(error))
    }
}

pub type Cell<T> = std::result::Result<T, NoValue>;

/// The arguments of a batch of rows, coerced as their function declares them. A literal is stored once.
#[derive(Debug, Clone)]
pub struct Columns {
    arrays: Vec<(ArrayRef, bool)>,
    rows: usize,
}

impl Columns {
    /// Reads the arguments of `rows` rows. Fails if a value does not have the type that it was coerced to.
    pub fn new(arguments: &[ColumnarValue], rows: usize) -> Result<Self> {
        let read = |argument: &ColumnarValue| match argument {
            ColumnarValue::Array(array) => Ok((read(array)?, false)),
            ColumnarValue::Scalar(literal) => Ok((read(&literal.to_array()?)?, true)),
        };
        Ok(Self { arrays: arguments.iter().map(read).collect::<Result<_>>()?, rows })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn if_constant(&self) -> Option<Self> {
        self.arrays.iter().all(|(_, is_literal)| *is_literal).then(|| Self { rows: 1, ..self.clone() })
    }

    pub fn row(&self, row: usize) -> Args<'_> {
        Args { columns: self, row }
    }

    /// Reads each row; None for NULL.
    pub(crate) fn read<'a, T>(&'a self, mut cell: impl FnMut(Args<'a>) -> Cell<T>) -> Result<Vec<Option<T>>> {
        (0..self.rows).map(|row| nullable(cell(self.row(row)))).collect()
    }
}

fn read(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::UInt64 => cast(array, &DataType::Int64)?,
        DataType::List(item) if *item.data_type() == DataType::UInt64 => cast(array, &list_of(DataType::Int64))?,
        other if are_turns(other) => turns::normal(array)?,
        other if is_asked(other) => turns::normal_asked(array)?,
        other if messages::is_conversation(other) && !other.is_null() => messages::turns(array)?,
        _ => array.clone(),
    })
}

#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    columns: &'a Columns,
    row: usize,
}

impl<'a> Args<'a> {
    fn at(self, place: usize) -> Cell<(&'a ArrayRef, usize)> {
        let (array, is_literal) = self.columns.arrays.get(place).ok_or(NoValue::Null)?;
        let row = if *is_literal { 0 } else { self.row };
        if array.is_valid(row) { Ok((array, row)) } else { Err(NoValue::Null) }
    }

    pub fn is_given(self, place: usize) -> bool {
        place < self.columns.arrays.len()
    }

    pub fn is_null(self, place: usize) -> bool {
        self.at(place).is_err()
    }

    pub fn text(self, place: usize) -> Cell<&'a str> {
        self.at(place).map(|(array, row)| array.as_string_view().value(row))
    }

    pub(crate) fn int(self, place: usize) -> Cell<i64> {
        self.at(place).map(|(array, row)| array.as_primitive::<Int64Type>().value(row))
    }

    pub fn ratio(self, place: usize) -> Cell<f64> {
        self.number(place, Arg::Ratio)
    }

    pub fn share(self, place: usize) -> Cell<f64> {
        self.number(place, Arg::Share)
    }

    fn number(self, place: usize, kind: Arg) -> Cell<f64> {
        let number = self.at(place).map(|(array, row)| array.as_primitive::<Float64Type>().value(row))?;
        if kind.holds(number) { Ok(number) } else { Err(NoValue::Null) }
    }

    fn items(self, place: usize) -> Cell<(&'a ArrayRef, std::ops::Range<usize>)> {
        let (array, row) = self.at(place)?;
        let list: &ListArray = array.as_list();
        let offsets = list.value_offsets();
        Ok((list.values(), offsets[row] as usize..offsets[row + 1] as usize))
    }

    /// Reads an [`Arg::TextList`]; NULL items become empty texts.
    pub fn texts(self, place: usize) -> Cell<Vec<&'a str>> {
        let (items, range) = self.items(place)?;
        let items: &StringViewArray = items.as_string_view();
        Ok(range.map(|item| if items.is_valid(item) { items.value(item) } else { "" }).collect())
    }

    pub(crate) fn ints(self, place: usize) -> Cell<Vec<Option<i64>>> {
        let (items, range) = self.items(place)?;
        let items = items.as_primitive::<Int64Type>();
        Ok(range.map(|item| items.is_valid(item).then(|| items.value(item))).collect())
    }

    pub fn floats(self, place: usize) -> Cell<Vec<Option<f64>>> {
        let (items, range) = self.items(place)?;
        let items = items.as_primitive::<Float64Type>();
        Ok(range.map(|item| items.is_valid(item).then(|| items.value(item))).collect())
    }

    /// Reads an [`Arg::IntList`] of step numbers, from 1, as indices. NULL if a number is not one of `steps` steps.
    pub fn indices(self, place: usize, steps: usize) -> Cell<Vec<usize>> {
        let index = |number: Option<i64>| usize::try_from(number?).ok()?.checked_sub(1).filter(|index| *index < steps);
        self.ints(place)?.into_iter().map(index).collect::<Option<_>>().ok_or(NoValue::Null)
    }

    /// Reads an [`Arg::Trace`]: whether each of its steps is kept.
    pub(crate) fn kept_steps(self, place: usize) -> Cell<Vec<bool>> {
        let (traces, row) = self.at(place)?;
        kept_steps(traces.as_list(), row).ok_or(NoValue::Null)
    }

    /// Reads an [`Arg::Turns`].
    pub(crate) fn conversation(self, place: usize) -> Cell<Vec<Turn<'a>>> {
        let (array, row) = self.at(place)?;
        Ok(turns::turns_at(array.as_list(), row))
    }

    /// Reads an [`Arg::Asked`] and the steps after it. The steps are those of the thoughts of [`Arg::Turns`], or the row is
    /// NULL.
    pub(crate) fn chain(self, asked: usize, steps: usize) -> Cell<QuestionAndSteps<'a>> {
        let (Some((system, turns)), steps) = (self.turns_asked(asked)?, self.texts(steps)?) else {
            return Ok(QuestionAndSteps::new(self.asked(asked)?, self.texts(steps)?));
        };
        let turns = turns::with_system(system, turns);
        let turns: Vec<_> = turns.into_iter().map(Turn::without_thought).collect();
        if turns.iter().map(|turn| turn.steps).sum::<usize>() != steps.len() {
            return Err(NoValue::Null);
        }
        Ok(QuestionAndSteps { question: "".into(), steps, turns })
    }

    /// The turns of an [`Arg::Asked`] that is a conversation with several exchanges or tools, and the system prompt next to
    /// them.
    fn turns_asked(self, place: usize) -> Cell<Option<(Option<&'a str>, Vec<Turn<'a>>)>> {
        let (array, row) = self.at(place)?;
        if let Some(turns) = array.as_list_opt::<i32>() {
            return Ok(Some((None, turns::turns_at(turns, row))));
        }
        let Some([question, system, turns]) = turns::asked_columns(array) else { return Ok(None) };
        if question.is_null(row) {
            return Err(NoValue::Null);
        }
        let said = system.is_valid(row).then(|| system.as_string_view().value(row));
        let turns = turns.is_valid(row).then(|| turns::turns_at(turns.as_list(), row));
        Ok(turns.map(|turns| (said.filter(|system| !system.trim().is_empty()), turns)))
    }

    /// Reads an [`Arg::Asked`]: a question, or the first system turn (unless blank) and the first user turn of a
    /// conversation. NULL for one with several exchanges or tools.
    pub fn asked(self, place: usize) -> Cell<Asked<'a>> {
        let (array, row) = self.at(place)?;
        if let Some(texts) = array.as_string_view_opt() {
            return Ok(texts.value(row).into());
        }
        if let Some([question, system, turns]) = turns::asked_columns(array) {
            if turns.is_valid(row) || question.is_null(row) {
                return Err(NoValue::Null);
            }
            let system = system.is_valid(row).then(|| system.as_string_view().value(row));
            let question = question.as_string_view().value(row);
            return Ok(Asked { system: system.filter(|system| !system.trim().is_empty()), question });
        }
        let turns = self.turns(place)?;
        let first = |roles: [&str; 2]| {
            let said = turns.iter().find(|(speaker, _)| speaker.is_some_and(|speaker| roles.contains(&speaker)));
            said.and_then(|(_, text)| *text)
        };
        let system = first(["system", "developer"]).filter(|system| !system.trim().is_empty());
        Ok(Asked { system, question: first(["user", "human"]).ok_or(NoValue::Null)? })
    }

    pub fn turns(self, place: usize) -> Cell<Vec<(Option<&'a str>, Option<&'a str>)>> {
        let (array, row) = self.at(place)?;
        messages::turns_at(array, row).ok_or(NoValue::Null)
    }
}

/// Returns `Ok(None)` for NULL. Fails if the cell holds an error that fails the query.
pub fn nullable<T>(cell: Cell<T>) -> Result<Option<T>> {
    match cell {
        Ok(value) => Ok(Some(value)),
        Err(NoValue::Null) => Ok(None),
        Err(NoValue::Failed(error)) => Err(error),
    }
}
