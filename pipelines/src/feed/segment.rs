//! Rows that arrived together, at the start of a feed or in one commit, ordered by source.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use asap_kernels::front_end::Flag;
use asap_kernels::steps::Separator;
use asap_lm::Asked;
use asap_lm::example::Response;
use asap_udfs::messages::as_json;
use asap_udfs::models;
use asap_udfs::reading::{Lessons, TURNS};
use asap_udfs::trace::{is_trace, kept_steps};
use datafusion::arrow::array::{Array, AsArray, ListArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, ScalarValue, config_err, exec_datafusion_err, exec_err};
use datafusion::functions::core::expr_ext::FieldAccessor;
use datafusion::prelude::{DataFrame, Expr, SessionContext, cast, col, lit};
use futures::StreamExt;
use rayon::prelude::*;

use super::encoder::{Encoder, FedRow, Loss};
use crate::conversations::MULTI_TURN;
use crate::corpus::{Corpus, FileRows};

/// The name in a corpus of the column `source` of an asap output.
const FIRST_SOURCE: &str = "source_source";
/// The columns of an output that hold the chain before pruning, and what happened to each of its steps.
const ORIGINAL: &str = "original_cot";
const STEPS: &str = "steps";
/// The schemas of the tools of a conversation.
const TOOLS: &str = "tools";

pub(super) struct Segment {
    corpus: Corpus,
    /// What separates the steps of chains before pruning.
    separator: Separator,
    files: Vec<Arc<str>>,
    places: Vec<SourceRow>,
}

#[derive(Debug, Clone, Copy)]
struct SourceRow {
    file: u32,
    row: u32,
}

#[derive(Debug)]
pub(super) struct RowWithSource {
    pub row: FedRow,
    pub source: (Arc<str>, u64),
    /// Whether it has a system prompt that the chat template does not print.
    pub lacks_system: bool,
}

impl Segment {
    /// Finds the order of all rows. For an asap output it reads only the column `source`, for other files nothing.
    pub(crate) async fn new(context: &SessionContext, corpus: Corpus, separator: Separator) -> Result<Self> {
        if let Some(failure) = corpus.failures.first() {
            return Err(failure.clone().into());
        }
        let files: Vec<Arc<str>> = corpus.files().map(|(_, file)| file.file.path.as_str().into()).collect();
        let places = match is_output(&corpus) {
            true => by_first_source(context, &corpus, &files).await,
            false => by_place(&corpus, &files),
        };
        let places = named(context, &corpus, places).await?;
        Ok(Self { corpus, separator, files, places })
    }

    pub(crate) fn rows(&self) -> usize {
        self.places.len()
    }

    pub(crate) async fn read(
        &self,
        context: &SessionContext,
        range: Range<usize>,
        encoder: &Arc<Encoder>,
    ) -> Result<Vec<RowWithSource>> {
        named(context, &self.corpus, self.read_rows(context, range, encoder).await).await
    }

    async fn read_rows(
        &self,
        context: &SessionContext,
        range: Range<usize>,
        encoder: &Arc<Encoder>,
    ) -> Result<Vec<RowWithSource>> {
        let places = &self.places[range];
        let mut wanted: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for place in places {
            wanted.entry(place.file as usize).or_default().push(u64::from(place.row));
        }
        let corpus = self.corpus.of_rows(&mut wanted);
        let rows = context.read_table(Arc::new(corpus.view(&context.state())?))?;
        let (chain, steps) = match encoder.loss {
            Loss::All => ("cot", None),
            Loss::Kept => {
                check_steps(&self.corpus)?;
                (ORIGINAL, Some(col(STEPS)))
            }
        };
        let texts = ["question", chain, "answer", "system", "status"].map(|name| text_of(col(name)));
        let source = [text_of(col("source").field("file")), col("source").field("row")];
        let tools =
            if self.corpus.schema().field_with_name(TOOLS).is_ok() { col(TOOLS) } else { lit(ScalarValue::Null) };
        let of_turns = [col(TURNS), tools.alias(TOOLS)];
        let rows = rows.select(source.into_iter().chain(texts).chain(of_turns).chain(steps).collect::<Vec<_>>())?;
        let separator = self.separator;
        let numbers: HashMap<&str, u32> = self.files.iter().map(|file| file.as_ref()).zip(0..).collect();
        let mut found: HashMap<(u32, u32), (FedRow, bool)> = HashMap::with_capacity(places.len());
        let mut batches = rows.execute_stream().await?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let (names, rows) = (batch.column(0).as_string_view(), batch.column(1).as_primitive::<Int64Type>());
            let places: Vec<(u32, u32)> = (0..batch.num_rows())
                .map(|row| (numbers.get(names.value(row)).copied().unwrap_or(u32::MAX), rows.value(row) as u32))
                .collect();
            let encoder = Arc::clone(encoder);
            let encoded = SpawnedTask::spawn_blocking(move || encode(&encoder, separator, &batch)).join().await;
            let encoded = encoded.map_err(|error| exec_datafusion_err!("tokenizing rows stopped: {error}"))??;
            found.extend(places.into_iter().zip(encoded));
        }
        let take = |place: &SourceRow| {
            let Some((row, lacks_system)) = found.remove(&(place.file, place.row)) else {
                return exec_err!("row {} of {} no longer exists", place.row, self.files[place.file as usize]);
            };
            let source = (Arc::clone(&self.files[place.file as usize]), u64::from(place.row));
            Ok(RowWithSource { row, source, lacks_system })
        };
        places.iter().map(take).collect()
    }
}

/// The result of reading a corpus. An error names the damaged file.
async fn named<T>(context: &SessionContext, corpus: &Corpus, read: Result<T>) -> Result<T> {
    match read {
        Ok(read) => Ok(read),
        Err(error) => Err(corpus.named(&context.state(), error).await),
    }
}

fn text_of(expr: Expr) -> Expr {
    cast(expr, DataType::Utf8View)
}

/// Checks that a corpus has the chains before pruning with their steps, which [`Loss::Kept`] needs.
pub fn check_steps(corpus: &Corpus) -> Result<()> {
    let schema = corpus.schema();
    let has = |name: &str| match schema.field_with_name(name) {
        Ok(field) => name == ORIGINAL && field.data_type().is_string() || is_trace(field.data_type()),
        Err(_) => false,
    };
    let Some(missing) = [ORIGINAL, STEPS].into_iter().find(|name| !has(name)) else { return Ok(()) };
    config_err!(
        "{} kept learns steps of the chains before pruning, but the rows have no column {missing} of an asap output: pass \
         the output of a pipeline that drops steps (llmlingua2, selective_context and tokenskip drop parts of steps)",
        Flag("--loss")
    )
}

/// The steps of a chain before pruning, and whether each is kept. Otherwise why they are not known.
fn learned_steps(
    chain: &str,
    separator: Separator,
    traces: &ListArray,
    row: usize,
) -> std::result::Result<Vec<(Range<usize>, bool)>, &'static str> {
    let (spans, kept) = (separator.spans(chain), kept_steps(traces, row).ok_or("no steps")?);
    match spans.len() == kept.len() {
        true => Ok(spans.into_iter().zip(kept).collect()),
        false => Err("the columns steps and original_cot have different numbers of steps"),
    }
}

/// Encodes a batch with the columns file, row, question, chain, answer, system prompt, status, turns and tools, and steps if
/// only kept ones are learned. Also returns whether the chat template does not print the row's system prompt.
fn encode(encoder: &Encoder, separator: Separator, batch: &RecordBatch) -> Result<Vec<(FedRow, bool)>> {
    let columns = [2, 3, 4, 5, 6].map(|column| batch.column(column).as_string_view());
    let lessons = Lessons::new(batch.column(7))?;
    let tools = as_json(batch.column(8), |row| lessons.has(row))?;
    let traces = batch.columns().get(9).map(|traces| traces.as_list::<i32>());
    let drops_system = encoder.template.drops_system();
    let row = |row: usize| {
        let [question, cot, answer, system, status] =
            columns.map(|column| column.is_valid(row).then(|| column.value(row)));
        let is_conversation = lessons.has(row) && status == Some(MULTI_TURN);
        let (Some(question), Some(cot), None) = (question, cot, status.filter(|_| !is_conversation)) else {
            let missing = if question.is_none() { "no question" } else { "no chain" };
            return Ok((FedRow::Rejected(status.filter(|_| !is_conversation).unwrap_or(missing).to_string()), false));
        };
        let steps = traces.map(|traces| learned_steps(cot, separator, traces, row)).transpose();
        let steps = match steps {
            Ok(steps) => steps,
            Err(why) => return Ok((FedRow::Rejected(why.to_string()), false)),
        };
        let lacks_system = drops_system && system.is_some();
        if is_conversation {
            let whole = steps.map(|steps| (cot, steps));
            let Some(conversation) = lessons.at(row, system, tools[row].as_deref(), whole) else {
                let why = "the columns steps and turns have different numbers of steps";
                return Ok((FedRow::Rejected(why.to_string()), false));
            };
            let encoded = encoder.encode_conversation(question, &conversation);
            return Ok((encoded.map_err(models::failed)?, lacks_system));
        }
        let response = Response { cot, answer: answer.unwrap_or_default(), steps };
        let encoded = encoder.encode(Asked { system, question }, &response);
        Ok((encoded.map_err(models::failed)?, lacks_system))
    };
    (0..batch.num_rows()).into_par_iter().map(row).collect()
}

fn is_output(corpus: &Corpus) -> bool {
    let schema = corpus.schema();
    let Ok(field) = schema.field_with_name(FIRST_SOURCE) else { return false };
    let DataType::Struct(fields) = field.data_type() else { return false };
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    names == ["file", "row"]
}

fn place(file: usize, row: u64) -> Result<SourceRow> {
    match (u32::try_from(file), u32::try_from(row)) {
        (Ok(file), Ok(row)) => Ok(SourceRow { file, row }),
        _ => exec_err!("a file has 4,294,967,296 rows at most, found row {row}"),
    }
}

fn by_place(corpus: &Corpus, files: &[Arc<str>]) -> Result<Vec<SourceRow>> {
    let mut order: Vec<(usize, &FileRows)> = corpus.files().map(|(_, file)| file).enumerate().collect();
    order.sort_by(|a, b| files[a.0].cmp(&files[b.0]));
    let mut places = Vec::with_capacity(corpus.rows() as usize);
    for (number, file) in order {
        let rows = (0..file.rows()).filter(|row| file.deleted.binary_search(row).is_err());
        for row in rows {
            places.push(place(number, row)?);
        }
    }
    Ok(places)
}

/// Orders all rows by the file that they were in before pruning, and their row number there.
async fn by_first_source(context: &SessionContext, corpus: &Corpus, files: &[Arc<str>]) -> Result<Vec<SourceRow>> {
    let numbers: HashMap<&str, usize> = files.iter().map(|file| file.as_ref()).zip(0..).collect();
    let rows: DataFrame = context.read_table(Arc::new(corpus.view(&context.state())?))?;
    let rows = rows.select(vec![
        text_of(col("source").field("file")),
        col("source").field("row"),
        text_of(coalesced(col(FIRST_SOURCE).field("file"), lit(""))),
        coalesced(cast(col(FIRST_SOURCE).field("row"), DataType::Int64), lit(0i64)),
    ])?;
    let mut found: HashMap<String, Vec<(i64, SourceRow)>> = HashMap::new();
    let mut batches = rows.execute_stream().await?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let [names, first_names] = [0, 2].map(|column| batch.column(column).as_string_view());
        let [rows, first_rows] = [1, 3].map(|column| batch.column(column).as_primitive::<Int64Type>());
        for index in 0..batch.num_rows() {
            let number = numbers.get(names.value(index)).copied().unwrap_or(usize::MAX);
            let found_row = (first_rows.value(index), place(number, rows.value(index) as u64)?);
            match found.get_mut(first_names.value(index)) {
                Some(of_file) => of_file.push(found_row),
                None => drop(found.insert(first_names.value(index).to_string(), vec![found_row])),
            }
        }
    }
    let mut by_name: Vec<(String, Vec<(i64, SourceRow)>)> = found.into_iter().collect();
    by_name.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut places = Vec::with_capacity(corpus.rows() as usize);
    for (_, mut of_file) in by_name {
        // Two rows of one source, which no run makes, are ordered by their files.
        let key = |(row, place): &(i64, SourceRow)| (*row, &files[place.file as usize], place.row);
        of_file.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        places.extend(of_file.into_iter().map(|(_, place)| place));
    }
    Ok(places)
}

fn coalesced(expr: Expr, other: Expr) -> Expr {
    datafusion::functions::core::expr_fn::coalesce(vec![expr, other])
}
