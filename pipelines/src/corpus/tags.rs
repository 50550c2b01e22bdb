//! Columns that are recognised by what stands in them: the tags of a chain of thought.

use std::cmp::Reverse;
use std::sync::Arc;

use asap_kernels::tags;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::{Result, exec_err};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlanBuilder, cast};
use datafusion::physical_plan::collect;

use super::path::Path;
use super::rules::{ANSWERS, CHAINS, QUESTIONS};
use super::shape::{self, Shape};
use super::table::FilesTable;

/// Rows that are looked at.
const SAMPLE_ROWS: usize = 16;

/// What a text holds in the rows that were looked at.
struct Sample {
    path: Path,
    rows: usize,
    /// Rows that hold a chain in think tags.
    tagged: usize,
    /// Bytes of all rows.
    bytes: usize,
}

/// The shape of a table whose names tell nothing: most of the first rows of one text, and of no other, hold think tags.
/// Columns come before what lies in structs and lists.
///
/// # Errors
/// If none does or several do, or if no column is the question: the columns then fit no shape.
pub(super) async fn recognise(
    session: &dyn Session,
    table: &FilesTable,
    file: &str,
    notes: &mut Vec<String>,
) -> Result<Shape> {
    let schema = table.file_schema();
    let samples = sample(session, table).await?;
    // A few generations may have been cut before their closing tag.
    let are_tagged: Vec<&Sample> = samples.iter().filter(|sample| sample.tagged * 2 > sample.rows).collect();
    let (columns, within): (Vec<&Sample>, Vec<_>) = are_tagged.into_iter().partition(|sample| sample.path.is_column());
    let tagged = if columns.is_empty() { within } else { columns };
    let [generation] = tagged.as_slice() else { return refuse(schema, file, &samples) };
    let Some(shape) = shape::with_tags(schema, generation.path.clone()) else { return refuse(schema, file, &samples) };
    let [question, ..] = shape.told();
    notes.push(format!(
        "column {} of {file} holds think tags and is read as the generation, of the question in column {question}",
        generation.path
    ));
    Ok(shape)
}

async fn sample(session: &dyn Session, table: &FilesTable) -> Result<Vec<Sample>> {
    let schema = table.file_schema();
    let paths = Path::texts(schema);
    if paths.is_empty() {
        return Ok(vec![]);
    }
    let texts = paths
        .iter()
        .enumerate()
        .map(|(place, path)| cast(path.expr(schema), DataType::Utf8View).alias(format!("text_{place}")));
    let plan = LogicalPlanBuilder::scan("files", provider_as_source(Arc::new(table.clone())), None)?
        .limit(0, Some(SAMPLE_ROWS))?
        .project(texts)?
        .build()?;
    let batches = collect(session.create_physical_plan(&plan).await?, session.task_ctx()).await?;
    let seen = paths.into_iter().enumerate().map(|(place, path)| {
        let mut sample = Sample { path, rows: 0, tagged: 0, bytes: 0 };
        for text in batches.iter().flat_map(|batch| batch.column(place).as_string_view().iter().flatten()) {
            sample.rows += 1;
            sample.bytes += text.len();
            sample.tagged += usize::from(tags::think(text).is_some());
        }
        sample
    });
    Ok(seen.collect())
}

/// Refuses files whose columns fit no shape, with the mapping that is likeliest meant.
fn refuse<T>(schema: &Schema, file: &str, samples: &[Sample]) -> Result<T> {
    exec_err!(
        "the columns of {file} fit no shape that is known, and no text holds think tags in most of its first {SAMPLE_ROWS} rows: \
         {}; say which hold what, for example --columns '{}' (SELECT * FROM corpus_shapes() lists what is known)",
        shape::names(schema),
        guess(schema, samples)
    )
}

/// A mapping: by names where they tell, else the longest text is the chain.
fn guess(schema: &Schema, samples: &[Sample]) -> String {
    let mut left: Vec<&Sample> = samples.iter().collect();
    let mut named = |names: &[&str]| {
        let held = names.iter().filter_map(|name| shape::find(schema, name)).map(Path::column);
        let place = held.into_iter().find_map(|path| left.iter().position(|sample| sample.path == path))?;
        Some(left.remove(place))
    };
    let (question, cot, answer) = (named(QUESTIONS), named(CHAINS), named(ANSWERS));
    let longest = (0..left.len()).min_by_key(|place| Reverse(left[*place].bytes));
    let cot = cot.or_else(|| Some(left.remove(longest?)));
    // Questions stand before answers.
    let mut next = left.into_iter();
    let question = question.or_else(|| next.next());
    let answer = answer.or_else(|| next.next());
    let told = |sample: Option<&Sample>| sample.map_or("…".to_string(), |sample| sample.path.to_string());
    format!("question={},cot={},answer={}", told(question), told(cot), told(answer))
}
