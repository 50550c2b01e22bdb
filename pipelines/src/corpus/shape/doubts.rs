//! Finds doubtful readings, by the names of other columns and by the first rows.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, col};

use crate::corpus::scan::first_rows::{SAMPLE_ROWS, first_rows};
use crate::corpus::scan::table::FilesTable;
use crate::corpus::shape::Shape;
use crate::corpus::shape::repeats::Repeats;
use crate::corpus::shape::view;
use crate::corpus::shape::view::Original;

/// Thresholds of a note on repeated questions: different answers, and one in this many rows with that question.
const ANSWERS: usize = 4;
const SHARE: u64 = 4;

/// Returns a note for each doubt: other candidate columns whose first rows differ, and one question with many answers.
pub(crate) async fn notes(session: &dyn Session, table: &FilesTable, shape: &Shape, file: &str) -> Result<Vec<String>> {
    let rivals = shape.rivals(table.file_schema());
    let originals: Vec<Original> = rivals
        .iter()
        .enumerate()
        .map(|(place, (_, _, name))| Original {
            column: format!("rival_{place}"),
            name: name.clone(),
            data_type: DataType::Utf8,
            is_left_out: false,
        })
        .collect();
    let text = |name: &str| cast(col(name), DataType::Utf8);
    let parts = ["question", "chain", "answer"];
    let mut columns: Vec<Expr> = ["question", "cot", "answer"].map(text).to_vec();
    columns.extend(originals.iter().map(|original| text(&original.column)));
    let batches = first_rows(session, table, |table| {
        let rows = view::plan(session, Arc::new(table.clone()), table, shape, &originals)?;
        LogicalPlanBuilder::from(rows).limit(0, Some(SAMPLE_ROWS))?.project(columns.clone())?.build()
    });
    let batches = batches.await?;

    let mut notes = Vec::new();
    for (place, (part, read, rival)) in rivals.iter().enumerate() {
        let Some(of_part) = parts.iter().position(|known| known == part) else { continue };
        if batches.iter().any(|batch| differs(batch, of_part, parts.len() + place)) {
            notes.push(format!(
                "the {part} of {file} is read from column {read}; column {rival} could be it too, and has other values: \
                 asap reads --columns '{}'",
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
    notes.extend(repeats.note(ANSWERS, SHARE).map(|note| format!("{file}, its first {SAMPLE_ROWS} rows: {note}")));
    Ok(notes)
}

fn differs(batch: &RecordBatch, read: usize, rival: usize) -> bool {
    let [read, rival] = [read, rival].map(|place| batch.column(place).as_string::<i32>());
    let is_other = |row| {
        let is_blank = rival.is_null(row) || rival.value(row).trim().is_empty();
        !is_blank && (read.is_null(row) || read.value(row).trim() != rival.value(row).trim())
    };
    (0..batch.num_rows()).any(is_other)
}
