//! Finds doubtful readings, by the names of other columns and by the first rows.

use std::collections::{BTreeMap, BTreeSet};

use asap_kernels::front_end::either;
use asap_kernels::steps::{Separator, steps};
use asap_kernels::tags;
use asap_udfs::{Settings, messages};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, col};

use crate::corpus::rules::{BY_USER, Form, OWN, QUESTIONS, RULES};
use crate::corpus::scan::first_rows::{FIRST_ROWS, first_rows};
use crate::corpus::scan::table::FilesTable;
use crate::corpus::shape::expressions::text;
use crate::corpus::shape::path::{self, is_text};
use crate::corpus::shape::reading::{Functions, Reading};
use crate::corpus::shape::repeats::Repeats;
use crate::corpus::shape::types::{is_chain, is_plain};
use crate::corpus::shape::{Question, Response, Shape, has_type};
use crate::corpus::view::{self, Original};

/// Thresholds of a note on repeated questions: different answers, and one in this many rows with that question.
const ANSWERS: usize = 4;
const SHARE: u64 = 4;

/// Thresholds of a note on chains without blank lines: lines of such a chain, and one in this many chains.
const LINES: usize = 4;
const ONE_IN: usize = 4;

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
                 asap reads {}",
                PARTS[*part].1,
                shape.mapping().flag()
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
    let is_untagged = batches.iter().any(|batch| batch.column(1).null_count() > 0);
    notes.extend(unread(session, table, shape, is_untagged, file).await?);
    notes.extend(repeats.note(ANSWERS, SHARE).map(|note| format!("{file}, its first {FIRST_ROWS} rows: {note}")));
    Ok(notes)
}

/// A note if many of the first chains are one step of several lines, since nothing but single line breaks separates their steps.
pub(crate) async fn single_line_breaks(
    session: &dyn Session,
    table: &FilesTable,
    shape: &Shape,
    file: &str,
) -> Result<Option<String>> {
    if Settings::of(session.config_options())?.chain_steps == Separator::Line {
        return Ok(None);
    }
    let rows = |table: &FilesTable| view::of_files(session, table, shape, &[]);
    let batches = first_rows(session, table, FIRST_ROWS, &[text(col("cot"))], rows).await?;
    let chains = batches.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten());
    let chains: Vec<&str> = chains.filter(|chain| !chain.trim().is_empty()).collect();
    let is_one = |chain: &&&str| steps(chain).len() == 1 && Separator::Line.steps(chain).len() >= LINES;
    let found = chains.iter().filter(is_one).count();
    Ok((found > 0 && found * ONE_IN >= chains.len()).then(|| {
        format!(
            "{found} of the first {} chains of {file} have no blank lines: each is one step, which pruning keeps whole or \
             drops; to read their lines as steps: {}",
            chains.len(),
            either("--set asap.chain.steps=line", "chain_steps='line'")
        )
    }))
}

/// Notes on what the first rows hold and asap does not read: parts of messages, and tags that may be those of chains.
async fn unread(
    session: &dyn Session,
    table: &FilesTable,
    shape: &Shape,
    is_untagged: bool,
    file: &str,
) -> Result<Vec<String>> {
    let schema = table.file_schema();
    let turns = shape.conversations().filter(|turns| turns.whole_type(schema).is_some_and(path::has_parts));
    let mut columns: Vec<Expr> = turns.map(|turns| turns.whole(schema)).collect();
    let parts = columns.len();
    let has_tags = match &shape.response {
        Response::Columns { .. } => false,
        Response::Turn { chains, .. } => chains.is_empty(),
        Response::Generation(_) | Response::Generations(_) => true,
    };
    // Rows with chains need no second look.
    if has_tags && is_untagged {
        columns.push(Reading::text(schema, shape, &Functions::of(session)?)?);
    }
    if columns.is_empty() {
        return Ok(vec![]);
    }
    let batches = first_rows(session, table, FIRST_ROWS, &columns, |table| table.plan()?.build()).await?;
    let (mut counts, mut tags) = (BTreeMap::<String, usize>::new(), BTreeSet::new());
    for batch in &batches {
        for turns in &batch.columns()[..parts] {
            messages::other_parts(turns)?
                .into_iter()
                .for_each(|(kind, parts)| *counts.entry(kind).or_default() += parts);
        }
        let texts = batch.columns()[parts..].iter().flat_map(|texts| texts.as_string::<i32>().iter().flatten());
        let untagged = texts.filter(|text| tags::think(text).is_none());
        tags.extend(untagged.filter_map(|text| Some(tags::unread(text)?.to_string())));
    }
    let rows = format!("the first {FIRST_ROWS} rows of {file}");
    let counted: Vec<String> = counts.iter().map(|(kind, parts)| format!("{parts} {kind}")).collect();
    let of_parts = format!("{rows} have parts of messages that asap leaves out: {}", counted.join(", "));
    let tags: Vec<String> = tags.into_iter().collect();
    let of_tags = format!(
        "{rows} have texts with {}, which asap does not read as think tags: if they begin chains, replace them and their closing \
         tags with <think> and </think>",
        tags.join(", ")
    );
    let notes = [(counts.is_empty(), of_parts), (tags.is_empty(), of_tags)];
    Ok(notes.into_iter().filter(|(is_empty, _)| !is_empty).map(|(_, note)| note).collect())
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
        rivals.extend(others(1, &mapping.cot, rule.cot, is_chain));
        rivals.extend(others(2, answer, rule.answer, is_plain));
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
