//! Earlier turns in a column of their own, as LLaMA-Factory has them in its form of Alpaca: data/README.md of
//! hiyouga/LLaMA-Factory.

use std::borrow::Cow;

use asap_kernels::steps::Separator;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::response::Said;
use super::turns::Turns;
use super::{Exchange, Row, text, texts};
use crate::output::list_of;

/// Pairs of what the user and the assistant said before, and what the user says last.
pub(super) struct History {
    pairs: ListArray,
    questions: StringViewArray,
}

impl History {
    /// The history of rows from its columns. None without such columns.
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
        let offsets = Some(self.pairs.value_offsets()).filter(|_| self.pairs.is_valid(row))?;
        let pairs = offsets[row] as usize..offsets[row + 1] as usize;
        let each = self.pairs.values().as_list::<i32>();
        if pairs.is_empty() {
            return None;
        }
        let (mut turns, mut question) = (Turns::default(), None);
        for pair in pairs.filter(|pair| each.is_valid(*pair)) {
            let [from, to] = [pair, pair + 1].map(|place| each.value_offsets()[place] as usize);
            for (place, at) in (from..to).enumerate() {
                let held = text(each.values().as_string_view(), at);
                match place % 2 {
                    0 => {
                        question = question.or(held.filter(|text| !text.trim().is_empty()));
                        held.into_iter().for_each(|text| turns.says("user", Some(text)));
                    }
                    _ => turns.answers(Said { text: held, chain: None }, vec![]),
                }
            }
        }
        text(&self.questions, row).into_iter().for_each(|text| turns.says("user", Some(text)));
        turns.answers(said, vec![]);
        let exchange = Exchange { question: question.map(Cow::Borrowed), ..Exchange::default() };
        Some(turns.finish(exchange, place, separator))
    }
}
