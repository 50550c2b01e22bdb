//! Reads the labelled steps of any corpus.

use std::borrow::Cow;
use std::sync::Arc;

use asap_generator::{Labelled, answer_place};
use asap_kernels::code_fences::{Blocks, Turn};
use asap_kernels::steps::steps;
use asap_pipelines::corpus::Corpus;
use asap_pipelines::session::session;
use asap_udfs::Settings;
use asap_udfs::llm::Llm;
use asap_verify::answer;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::prelude::{SessionContext, cast, ident};
use futures::TryStreamExt;

use crate::failure::Failure;
use crate::output::{count, note};
use crate::progress::while_opening;
use crate::rows;

const FUNCTIONS: [&str; 2] = ["functions", "function"];

#[derive(Default)]
pub struct Read {
    pub steps: Vec<Labelled>,
    /// The number of chains with labels.
    pub chains: usize,
    /// Where in its chain each answer first occurs, ascending. Chains that never state it are left out.
    pub places: Vec<f64>,
    left_out: u64,
}

/// Reads a corpus with a column of labels.
pub async fn read(location: &str, labels: &str) -> Result<Read, Failure> {
    let context = session(Settings::default(), &Llm::default())?;
    let (place, state) = ([location.to_string()], context.state());
    let corpus = while_opening(&place, false, Corpus::open(&state, location, None)).await?;
    corpus.notes.iter().for_each(note);
    check(&corpus, location, labels)?;
    let mut read = Read::default();
    read_rows(&context, &corpus, labels, &mut read).await?;
    if read.steps.is_empty() {
        return Err(Failure::Failed(format!("no step in {location} has a label")));
    }
    if read.left_out > 0 {
        note(format!("{} rows without a chain or without labels are left out", count(read.left_out)));
    }
    read.places.sort_by(f64::total_cmp);
    Ok(read)
}

fn check(corpus: &Corpus, location: &str, labels: &str) -> Result<(), Failure> {
    let schema = corpus.schema();
    let Ok(field) = schema.field_with_name(labels) else {
        let names = corpus.original_columns().join(", ");
        return Err(Failure::Usage(format!("{location} has no column {labels}; there are: {names}")));
    };
    match field.data_type() {
        kind if is_list(kind) => Ok(()),
        other => Err(Failure::Usage(format!("{labels} is {other}, not a list with a label for each step"))),
    }
}

fn is_list(kind: &DataType) -> bool {
    matches!(kind, DataType::List(_) | DataType::LargeList(_))
}

async fn read_rows(context: &SessionContext, corpus: &Corpus, labels: &str, read: &mut Read) -> Result<(), Failure> {
    let texts = || DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    let schema = corpus.schema();
    let is_list = |name: &&str| schema.field_with_name(name).is_ok_and(|field| is_list(field.data_type()));
    let functions = FUNCTIONS.into_iter().find(is_list).map(|name| cast(ident(name), texts()).alias("functions"));
    let labels = cast(ident(labels), texts()).alias("labels");
    let columns = [rows::text("cot"), rows::text("answer"), labels].into_iter().chain(functions);
    let mut batches = rows::in_order(context, corpus, columns).await?;
    while let Some(batch) = batches.try_next().await? {
        read_batch(&batch, read)?;
    }
    Ok(())
}

fn read_batch(batch: &RecordBatch, read: &mut Read) -> Result<(), Failure> {
    let [files, chains, answers] = [0, 2, 3].map(|column| batch.column(column).as_string_view());
    let rows = batch.column(1).as_primitive::<Int64Type>();
    let labels = batch.column(4).as_list::<i32>();
    let functions = batch.columns().get(5).map(|column| column.as_list::<i32>());
    for row in 0..batch.num_rows() {
        if chains.is_null(row) || labels.is_null(row) {
            read.left_out += 1;
            continue;
        }
        let (chain, labels) = (chains.value(row), labels.value(row));
        let cut = steps(chain);
        let functions = functions.filter(|lists| lists.is_valid(row)).map(|lists| lists.value(row));
        for (what, list) in [("labels", Some(&labels)), ("functions", functions.as_ref())] {
            if let Some(list) = list.filter(|list| list.len() != cut.len()) {
                let place = format!("row {} of {}", rows.value(row), files.value(row));
                return Err(Failure::Failed(format!("{place} has {} steps and {} {what}", cut.len(), list.len())));
            }
        }
        let labelled = cut.into_iter().enumerate().filter_map(|(place, text)| {
            let function = functions.as_ref().and_then(|list| text_of(list, place));
            Some(Labelled { text: text.to_string(), label: text_of(&labels, place)?, function })
        });
        read.steps.extend(labelled);
        read.chains += 1;
        if answers.is_valid(row) {
            read.places.extend(answer_place(chain, &stated(answers.value(row))));
        }
    }
    Ok(())
}

fn text_of(list: &ArrayRef, place: usize) -> Option<String> {
    let texts = list.as_string::<i32>();
    texts.is_valid(place).then(|| texts.value(place).to_string())
}

/// Returns the final answer of a response, else its last block of code, else all of it.
pub fn stated(response: &str) -> Cow<'_, str> {
    answer(response).or_else(|| last_block(response).map(Cow::Owned)).unwrap_or(Cow::Borrowed(response))
}

fn last_block(text: &str) -> Option<String> {
    let (mut blocks, mut open, mut last) = (Blocks::default(), Vec::new(), None);
    for line in text.lines() {
        match blocks.read(line) {
            Some(Turn::Opens(_)) => open.clear(),
            Some(Turn::Closes) => last = Some(open.join("\n")),
            None if blocks.is_open() => open.push(line),
            None => {}
        }
    }
    last
}
