//! Faults of questions that a row does not show alone: near duplicates, and questions of benchmarks.

use std::collections::HashMap;
use std::sync::Arc;

use asap_kernels::health::contamination::Contamination;
use asap_kernels::health::duplicates::{SIMILAR, Signature, likely_pairs, shingles, signature, similarity};
use async_trait::async_trait;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, SchemaRef};
use datafusion::catalog::{MemTable, Session, TableFunctionArgs, TableProvider};
use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_err, plan_err};
use datafusion::functions::core::expr_ext::FieldAccessor;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType, cast, col, ident};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;
use rayon::prelude::*;
use serde_json::json;

use crate::corpus::function::texts;
use crate::corpus::rules::QUESTIONS;
use crate::corpus::{ColumnMapping, Corpus, files_table};
use crate::whole_table;

/// Names of question columns in published benchmarks, before those of corpora.
const OF_BENCHMARKS: [&str; 2] = ["problem_description", "question_content"];

/// A row of a corpus, and its question.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub file: Arc<str>,
    pub row: i64,
    pub question: Arc<str>,
}

/// A row whose question is in an earlier row, or in a benchmark: the row, where the question is, how much of it the two
/// share, and for a benchmark what they share.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    pub row: Asked,
    pub of: Asked,
    pub share: f64,
    pub matched: Option<String>,
}

/// Reports the rows read.
pub type OnRows<'a> = &'a (dyn Fn(u64) + Sync);

/// The rows of a corpus with their places in the order of files and rows.
struct Places(Vec<Arc<str>>);

impl Places {
    const ROW_BITS: u32 = 40;

    fn of(corpus: &Corpus) -> Self {
        let mut files: Vec<Arc<str>> = corpus.files().map(|(_, held)| held.file.path.as_str().into()).collect();
        files.sort_unstable();
        Self(files)
    }

    fn place(&self, file: &str, row: i64) -> u64 {
        let file = self.0.partition_point(|before| before.as_ref() < file) as u64;
        file << Self::ROW_BITS | row as u64
    }

    fn asked(&self, place: u64, question: Arc<str>) -> Asked {
        let file = Arc::clone(&self.0[(place >> Self::ROW_BITS) as usize]);
        Asked { file, row: (place & ((1 << Self::ROW_BITS) - 1)) as i64, question }
    }
}

/// Returns each row whose question is a near duplicate of the question of an earlier row, with the first such row. Keeps
/// in memory 136 bytes per row, and the questions of likely pairs.
///
/// # Errors
/// If rows cannot be read.
pub async fn near_duplicates(session: &dyn Session, corpus: &Corpus, on_rows: OnRows<'_>) -> Result<Vec<Known>> {
    let places = Places::of(corpus);
    let mut signatures: Vec<(u64, Signature)> = Vec::new();
    each_question(session, corpus, &places, on_rows, |rows| {
        signatures.par_extend(rows.into_par_iter().map(|(place, text)| (*place, signature(&shingles(text)))));
    })
    .await?;
    signatures.sort_unstable_by_key(|(place, _)| *place);
    let at = |text: u32| signatures[text as usize].0;
    let pairs: Vec<(u64, u64)> = likely_pairs(&signatures).into_iter().map(|(text, of)| (at(text), at(of))).collect();
    drop(signatures);
    let mut texts: HashMap<u64, Arc<str>> =
        pairs.iter().flat_map(|(text, of)| [*text, *of]).map(|place| (place, "".into())).collect();
    if pairs.is_empty() {
        return Ok(vec![]);
    }
    each_question(session, corpus, &places, &|_| (), |rows| {
        for (place, text) in rows {
            texts.entry(*place).and_modify(|kept| *kept = (*text).into());
        }
    })
    .await?;
    let first = |pairs: &[(u64, u64)]| {
        let row = places.asked(pairs[0].0, Arc::clone(&texts[&pairs[0].0]));
        let own = shingles(&row.question);
        pairs.iter().find_map(|(_, of)| {
            let share = similarity(&own, &shingles(&texts[of]));
            let of = || places.asked(*of, Arc::clone(&texts[of]));
            (share >= SIMILAR).then(|| Known { row: row.clone(), of: of(), share, matched: None })
        })
    };
    let by_row: Vec<&[(u64, u64)]> = pairs.chunk_by(|a, b| a.0 == b.0).collect();
    Ok(by_row.into_par_iter().filter_map(first).collect())
}

/// Returns the rows whose question has the question of a benchmark in it, and the number of questions that could not be
/// looked up, because they are too short or have only common phrases.
///
/// # Errors
/// If rows cannot be read, or if a file is not a benchmark.
pub async fn contaminated(
    session: &dyn Session,
    corpus: &Corpus,
    benches: &[String],
    on_rows: OnRows<'_>,
) -> Result<(Vec<Known>, usize)> {
    let mut searches = Vec::new();
    for bench in benches {
        let questions = benchmark(session, bench).await?;
        searches.push((Contamination::new(questions.iter().map(|asked| asked.question.as_ref())), questions));
    }
    let unchecked = searches.iter().map(|(search, _)| search.unchecked()).sum();
    let places = Places::of(corpus);
    each_question(session, corpus, &places, on_rows, |rows| {
        searches.par_iter_mut().for_each(|(search, _)| rows.iter().for_each(|(place, text)| search.look(*place, text)));
    })
    .await?;
    let mut found = Vec::new();
    for (search, questions) in searches {
        for hit in search.finish() {
            let row = places.asked(hit.text, "".into());
            found.push(Known {
                row,
                of: questions[hit.question].clone(),
                share: hit.share,
                matched: Some(hit.matched),
            });
        }
    }
    found.sort_by(|a, b| (&a.row.file, a.row.row).cmp(&(&b.row.file, b.row.row)));
    Ok((found, unchecked))
}

/// The questions of a benchmark, from a file or folder of Parquet or JSON lines.
async fn benchmark(session: &dyn Session, bench: &str) -> Result<Vec<Asked>> {
    let names = [&OF_BENCHMARKS, QUESTIONS].concat().join(", ");
    let expected =
        format!("expected a file of Parquet or JSON lines with one question per row, in a text column named {names}");
    let table = files_table(session, bench.parse()?, |_| ()).await;
    let other = |error: DataFusionError| match error.find_root() {
        DataFusionError::Execution(why) => config_datafusion_err!("{bench} is not a benchmark: {why}; {expected}"),
        _ => error,
    };
    let table = table.map_err(other)?;
    let Some(table) = table else { return config_err!("{bench} is not a benchmark: {expected}") };
    let schema = table.schema();
    let texts: Vec<&str> = schema
        .fields()
        .iter()
        .filter(|field| field.data_type().is_string())
        .map(|field| field.name().as_str())
        .collect();
    let mut names = OF_BENCHMARKS.iter().chain(QUESTIONS);
    let Some(question) = names.find_map(|name| texts.iter().find(|column| column.eq_ignore_ascii_case(name))) else {
        let all: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let found = match texts.as_slice() {
            [] if all.is_empty() => "no row".to_string(),
            [] => format!("no text column among {}", all.join(", ")),
            texts => format!("the text columns {}", texts.join(", ")),
        };
        return config_err!("{bench} is not a benchmark: {expected}; found {found}");
    };
    let plan = LogicalPlanBuilder::scan(bench, datafusion::datasource::provider_as_source(table), None)?;
    let plan = plan.project([text_of(ident(*question))])?.build()?;
    let (mut found, file): (_, Arc<str>) = (Vec::new(), bench.into());
    let mut batches = execute_stream(session.create_physical_plan(&plan).await?, session.task_ctx())?;
    while let Some(batch) = batches.try_next().await? {
        for text in batch.column(0).as_string_view() {
            let row = found.len() as i64;
            found.push(Asked { file: Arc::clone(&file), row, question: text.unwrap_or_default().into() });
        }
    }
    match found.iter().any(|asked| !asked.question.trim().is_empty()) {
        true => Ok(found),
        false => config_err!("{bench} is not a benchmark: its column {question} has no question"),
    }
}

/// Reads the questions of a corpus, batch by batch, with their places. Rows without a question are left out.
async fn each_question(
    session: &dyn Session,
    corpus: &Corpus,
    places: &Places,
    on_rows: OnRows<'_>,
    mut read: impl FnMut(&[(u64, &str)]),
) -> Result<()> {
    let view = corpus.view(session)?;
    let columns = [text_of(col("source").field("file")), col("source").field("row"), text_of(col("question"))];
    let plan: LogicalPlan = LogicalPlanBuilder::from(view.logical_plan().clone()).project(columns)?.build()?;
    let plan = session.create_physical_plan(&plan).await?;
    let mut batches = execute_stream(plan, session.task_ctx())?;
    while let Some(batch) = batches.try_next().await? {
        let (files, rows) = (batch.column(0).as_string_view(), batch.column(1).as_primitive::<Int64Type>());
        let questions = batch.column(2).as_string_view();
        let is_asked = |row: &usize| questions.is_valid(*row) && !questions.value(*row).trim().is_empty();
        let asked = (0..batch.num_rows()).filter(is_asked);
        let asked = asked.map(|row| (places.place(files.value(row), rows.value(row)), questions.value(row)));
        read(&asked.collect::<Vec<_>>());
        on_rows(batch.num_rows() as u64);
    }
    Ok(())
}

fn text_of(expr: Expr) -> Expr {
    cast(expr, DataType::Utf8View)
}

/// The table function `cot_duplicates('LOC' [, 'question=…,cot=…'])`.
pub(crate) fn cot_duplicates(args: &TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
    match KnownTable::of(args) {
        Some(table) if table.benches.is_none() => Ok(Arc::new(table)),
        _ => plan_err!("cot_duplicates takes a location and, if needed, a column mapping, as text"),
    }
}

/// The table function `cot_contaminated('LOC', 'FILE', … [, 'question=…,cot=…'])`.
pub(crate) fn cot_contaminated(args: &TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
    match KnownTable::of(args) {
        Some(table) if table.benches.is_some() => Ok(Arc::new(table)),
        _ => plan_err!("cot_contaminated takes a location and the files of benchmarks, as text"),
    }
}

/// Rows with known questions. It reads the corpus when a query runs.
#[derive(Debug)]
struct KnownTable {
    location: String,
    mapping: Option<ColumnMapping>,
    /// None for near duplicates.
    benches: Option<Vec<String>>,
    schema: SchemaRef,
}

impl KnownTable {
    fn of(args: &TableFunctionArgs) -> Option<Self> {
        let texts = texts(args)?;
        let (location, mut rest) = texts.split_first()?;
        let mapping: Option<ColumnMapping> = rest.last().and_then(|last| last.parse().ok());
        rest = if mapping.is_some() { &rest[..rest.len() - 1] } else { rest };
        let benches = (!rest.is_empty()).then(|| rest.iter().map(|bench| bench.to_string()).collect());
        let schema = batch(&[]).ok()?.schema();
        Some(Self { location: location.to_string(), mapping, benches, schema })
    }
}

#[async_trait]
impl TableProvider for KnownTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let corpus = Corpus::open(session, &self.location, self.mapping.as_ref()).await?;
        let found = match &self.benches {
            None => near_duplicates(session, &corpus, &|_| ()).await?,
            Some(benches) => contaminated(session, &corpus, benches, &|_| ()).await?.0,
        };
        let table = MemTable::try_new(self.schema(), vec![vec![batch(&found)?]])?;
        table.scan(session, projection, filters, limit).await
    }
}

fn batch(found: &[Known]) -> Result<RecordBatch> {
    let field = |name: &str, kind| Field::new(name, kind, true);
    let place = DataType::Struct(vec![field("file", DataType::Utf8), field("row", DataType::Int64)].into());
    let columns = [(place, "source of"), (DataType::Float64, "share"), (DataType::Utf8, "matched question")];
    let place = |asked: &Asked| json!({ "file": &*asked.file, "row": asked.row });
    let row = |known: &Known| {
        let matched = known.matched.as_deref().unwrap_or(&known.row.question);
        json!({ "source": place(&known.row), "of": place(&known.of), "share": known.share, "matched": matched,
            "question": &*known.of.question })
    };
    whole_table::batch(&columns, &found.iter().map(row).collect::<Vec<_>>())
}
