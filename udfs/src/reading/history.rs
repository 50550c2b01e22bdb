//! Earlier turns in a column of their own, as LLaMA-Factory has them in its form of Alpaca: data/README.md of
//! hiyouga/LLaMA-Factory.

use std::borrow::Cow;

use asap_kernels::steps::Separator;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::conversation::Exchange;
use super::response::Said;
use super::turns::Turns;
use super::{Row, text, texts};
use crate::output::list_of;

/// Pairs of what the user and the assistant said before, and what the user says last.
pub(super) struct History {
    pairs: ListArray,
    questions: StringViewArray,
}

impl History {
    /// The history of rows from its columns. None if there are none.
    pub(super) fn new(columns: &[ArrayRef]) -> Result<Option<Self>> {
        match columns {
            [] => Ok(None),
            [pairs, questions] => {
                let pairs = cast(pairs, &list_of(list_of(DataType::Utf8View)))?;
                Ok(Some(Self { pairs: pairs.as_list().clone(), questions: texts(questions)? }))
            }
            others => exec_err!("a history has two columns, found {}", others.len()),
        }
    }

    /// The conversation of a row, of which the assistant says `said` last. None without earlier turns.
    pub(super) fn conversation<'a>(
        &'a self,
        row: usize,
        said: Said<'a>,
        place: &str,
        separator: Separator,
    ) -> Option<Row<'a>> {
        let pairs = Some(self.pairs.offsets()).filter(|_| self.pairs.is_valid(row));
        let pairs = pairs.map(|offsets| offsets[row] as usize..offsets[row + 1] as usize)?;
        let each = self.pairs.values().as_list::<i32>();
        let mut turns = Turns::default();
        let mut question = None;
        for pair in pairs.filter(|pair| each.is_valid(*pair)) {
            let (from, to) = (each.value_offsets()[pair] as usize, each.value_offsets()[pair + 1] as usize);
            let said = each.values().as_string_view();
            let said = |place: usize| (from + place < to).then(|| text(said, from + place)).flatten();
            question = question.or(said(0));
            turns.says("user", said(0));
            turns.answers(Said { text: said(1), chain: None }, vec![]);
        }
        let question = Cow::Borrowed(question?);
        turns.says("user", text(&self.questions, row));
        turns.answers(said, vec![]);
        let (turns, response) = turns.finish(place, separator);
        let exchange = Exchange { question: Some(question), ..Exchange::default() };
        Some(Row { exchange, response, turns: Some(turns) })
    }
}
