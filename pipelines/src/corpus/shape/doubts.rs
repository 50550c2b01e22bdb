//! Finds doubtful readings, by the names of other columns and by the first rows.

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, col};

use crate::corpus::scan::first_rows::{FIRST_ROWS, first_rows};
use crate::corpus::scan::table::FilesTable;
use crate::corpus::shape::expressions::text;
use crate::corpus::shape::path::is_text;
use crate::corpus::shape::repeats::Repeats;
use crate::corpus::shape::rules::{BY_USER, Form, OWN, QUESTIONS, RULES};
use crate::corpus::shape::view::{self, Original};
use crate::corpus::shape::{Question, Shape, has_type, is_answer, is_text_or_texts};

/// Thresholds of a note on repeated questions: different answers, and one in this many rows with that question.
const ANSWERS: usize = 4;
const SHARE: u64 = 4;

/// The parts of a row, as columns of the corpus and as notes name them.
const PARTS: [(&str, &str); 3] = [("question", "question"), ("cot", "chain"), ("answer", "answer")];

/// A column that could be a part of the rows, too.
struct Rival {
    part: usize,
    read: String,
    name: String,
}

/// Returns a note for each doubt: other candidate columns whose first rows differ, and one question with many answers.
pub(crate) async fn notes(session: &dyn Session, table: &FilesTable, shape: &Shape, file: &str) -> Result<Vec<String>> {
    let rivals = rivals(shape, table.file_schema());
    let originals = rivals.iter().enumerate().map(|(place, rival)| Original {
        column: format!("rival_{place}"),
        name: rival.name.clone(),
        data_type: DataType::Utf8,
        is_left_out: false,
    });
    let originals: Vec<Original> = originals.collect();
    let names =
        PARTS.iter().map(|(column, _)| *column).chain(originals.iter().map(|original| original.column.as_str()));
    let columns: Vec<Expr> = names.map(|name| text(col(name))).collect();
    let batches =
        first_rows(session, table, FIRST_ROWS, &columns, |table| view::of_files(session, table, shape, &originals));
    let batches = batches.await?;

    let mut notes = Vec::new();
    for (place, Rival { part, read, name }) in rivals.iter().enumerate() {
        if batches.iter().any(|batch| differs(batch, *part, PARTS.len() + place)) {
            notes.push(format!(
                "the {} of {file} is read from column {read}; column {name} could be it too, and has other values: \
                 asap reads --columns '{}'",
                PARTS[*part].1,
                shape.mapping()
            ));
        }
    }
    let mut repeats = Repeats::default();
    for batch in &batches {
        let (questions, answers) = (batch.column(0).as_string::<i32>(), batch.column(2).as_string::<i32>());
        for (question, answer) in questions.iter().zip(answers) {
            if let (Some(question), Some(answer)) = (question, answer) {
                repeats.take(question, answer);
            }
        }
    }
    notes.extend(repeats.note(ANSWERS, SHARE).map(|note| format!("{file}, its first {FIRST_ROWS} rows: {note}")));
    Ok(notes)
}

fn rivals(shape: &Shape, schema: &Schema) -> Vec<Rival> {
    if [OWN, BY_USER].contains(&shape.rule) {
        return vec![];
    }
    let rule = RULES.iter().find(|rule| rule.name == shape.rule);
    let mapping = shape.mapping();
    let others = |part: usize, read: &String, names: &[&str], fits: fn(&_) -> bool| {
        let is_named = |name: &String| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let is_rival =
            |name: &String| is_named(name) && !mapping.names().contains(&Some(name)) && has_type(schema, name, fits);
        let rivals = schema.fields().iter().map(|field| field.name()).filter(|name| is_rival(name));
        rivals.map(|name| Rival { part, read: read.clone(), name: name.clone() }).collect::<Vec<_>>()
    };
    let mut rivals = match &shape.question {
        Question::Turn(_) => vec![],
        _ => others(0, &mapping.question, rule.map_or(QUESTIONS, |rule| rule.question), is_text),
    };
    if let (Some(rule), Some(answer)) = (rule.filter(|rule| rule.form == Form::Columns), &mapping.answer) {
        rivals.extend(others(1, &mapping.cot, rule.cot, is_text_or_texts));
        rivals.extend(others(2, answer, rule.answer, is_answer));
    }
    rivals
}

fn differs(batch: &RecordBatch, read: usize, rival: usize) -> bool {
    let [read, rival] = [read, rival].map(|place| batch.column(place).as_string::<i32>());
    let is_other = |row| {
        let is_blank = rival.is_null(row) || rival.value(row).trim().is_empty();
        !is_blank && (read.is_null(row) || read.value(row).trim() != rival.value(row).trim())
    };
    (0..batch.num_rows()).any(is_other)
}
