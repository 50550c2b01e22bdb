//! Which shape the files of a schema have: by the names of their columns, and by what stands in the first rows.

use std::cmp::Reverse;
use std::sync::Arc;

use asap_kernels::tags;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, col};
use datafusion::physical_plan::execute_stream;

use super::footer;
use super::guard::guarded_next;
use super::mapping::ColumnMapping;
use super::path::Path;
use super::rules::{ANSWERS, CHAINS, FLAGS, QUESTIONS};
use super::shape::{self, Response, Shape};
use super::table::FilesTable;
use super::view;

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

/// What the files of a schema hold where.
///
/// # Errors
/// If columns fit no shape, or a mapping none of them; `file` is one of the files.
pub(super) async fn shape_of(
    session: &dyn Session,
    table: &FilesTable,
    schema: &Schema,
    mapping: Option<&ColumnMapping>,
    file: &str,
    notes: &mut Vec<String>,
) -> Result<Shape> {
    if let Some(mapping) = mapping {
        return shape::mapped(schema, mapping, file);
    }
    let shape = match shape::by_names(schema, file) {
        Ok(shapes) => match readable(session, table, shapes).await? {
            Some(shape) => shape,
            None => by_tags(session, table, file, notes).await?,
        },
        // What the values say outweighs a name.
        Err(misfit) => by_tags(session, table, file, notes).await.map_err(|_| misfit)?,
    };
    if let Response::Generations(generations) = &shape.response
        && !generations.has_flags()
    {
        notes.push(format!(
            "every row of {file} will be rejected: no column says which of its {} are correct ({}); to take the first: --columns '{}'",
            generations.list,
            FLAGS.join(", "),
            shape.mapping()
        ));
    }
    Ok(shape)
}

/// Of several shapes that names allow, the first by which most of the first rows can be pruned; else the first of all.
async fn readable(session: &dyn Session, table: &FilesTable, shapes: Vec<Shape>) -> Result<Option<Shape>> {
    if shapes.len() > 1 {
        for shape in &shapes {
            let batches = first_rows(session, table, |table| {
                let rows = view::plan(session, Arc::new(table.clone()), table, shape, &[])?;
                LogicalPlanBuilder::from(rows).limit(0, Some(SAMPLE_ROWS))?.project([col("status")])?.build()
            });
            let batches = batches.await?;
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let fine: usize = batches.iter().map(|batch| batch.column(0).null_count()).sum();
            if fine * 2 > rows {
                return Ok(Some(shape.clone()));
            }
        }
    }
    Ok(shapes.into_iter().next())
}

/// The shape of a table whose names tell nothing: most of the first rows of one text, and of no other, hold think tags.
/// Columns come before what lies in structs and lists.
///
/// # Errors
/// If none does or several do, or if no column is the question: the columns then fit no shape.
async fn by_tags(session: &dyn Session, table: &FilesTable, file: &str, notes: &mut Vec<String>) -> Result<Shape> {
    let schema = table.file_schema();
    let samples = sample(session, table).await?;
    // A few generations may have been cut before their closing tag.
    let are_tagged: Vec<&Sample> = samples.iter().filter(|sample| sample.tagged * 2 > sample.rows).collect();
    let (columns, within): (Vec<&Sample>, Vec<_>) = are_tagged.into_iter().partition(|sample| sample.path.is_column());
    let tagged = if columns.is_empty() { within } else { columns };
    let Some(shape) = tagged.first().and_then(|only| shape::with_tags(schema, only.path.clone(), file)) else {
        return refuse(schema, file, &samples, &tagged);
    };
    if tagged.len() > 1 {
        return refuse(schema, file, &samples, &tagged);
    }
    let [question, ..] = shape.told();
    notes.push(format!(
        "column {} of {file} holds think tags and is read as the generation, of the question in column {question}",
        tagged[0].path
    ));
    Ok(shape)
}

/// What a plan gives over the first file that has rows and can be read: one that is damaged decides nothing for the others.
async fn first_rows(
    session: &dyn Session,
    table: &FilesTable,
    plan: impl Fn(&FilesTable) -> Result<LogicalPlan>,
) -> Result<Vec<RecordBatch>> {
    let mut failed = None;
    for file in table.files().iter().filter(|file| file.rows_left() > 0) {
        let plan = session.create_physical_plan(&plan(&table.only(file))?).await?;
        let mut rows = execute_stream(plan, session.task_ctx())?;
        let mut batches = Vec::new();
        loop {
            match guarded_next(&mut rows).await {
                Ok(Some(batch)) => batches.push(batch),
                Ok(None) => return Ok(batches),
                Err(error) => {
                    failed = failed.or(Some(match error {
                        DataFusionError::ObjectStore(_) => error,
                        damage => footer::damaged(&file.file.name, damage.strip_backtrace()),
                    }));
                    break;
                }
            }
        }
    }
    failed.map_or(Ok(vec![]), Err)
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
    let texts: Vec<Expr> = texts.collect();
    let batches = first_rows(session, table, |table| {
        LogicalPlanBuilder::scan("files", provider_as_source(Arc::new(table.clone())), None)?
            .limit(0, Some(SAMPLE_ROWS))?
            .project(texts.clone())?
            .build()
    });
    let batches = batches.await?;
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
fn refuse<T>(schema: &Schema, file: &str, samples: &[Sample], tagged: &[&Sample]) -> Result<T> {
    let (why, mapping) = match tagged {
        [] => (format!("no text holds think tags in most of its first {SAMPLE_ROWS} rows"), guess(schema, samples)),
        [only] => (
            format!("{} holds think tags, but nothing is called as a question", only.path),
            format!("question={},cot={}", question(schema, samples, tagged), only.path),
        ),
        several => {
            let names: Vec<String> = several.iter().map(|sample| sample.path.to_string()).collect();
            (
                format!("several texts hold think tags, {}", names.join(" and ")),
                format!("question={},cot={}", question(schema, samples, tagged), names[0]),
            )
        }
    };
    exec_err!(
        "the columns of {file} fit no shape that is known, and {why}: {}; say which hold what, for example --columns '{mapping}' \
         (SELECT * FROM corpus_shapes() lists what is known)",
        shape::names(schema)
    )
}

/// The text that is likeliest the question, beside those that hold think tags.
fn question(schema: &Schema, samples: &[Sample], tagged: &[&Sample]) -> String {
    let others = || samples.iter().filter(|sample| !tagged.iter().any(|tagged| tagged.path == sample.path));
    let named = QUESTIONS.iter().filter_map(|name| shape::find(schema, name)).map(Path::column);
    let found = named.into_iter().find(|path| others().any(|sample| sample.path == *path));
    let longest = || others().min_by_key(|sample| Reverse(sample.bytes)).map(|sample| sample.path.clone());
    found.or_else(longest).map_or("…".to_string(), |path| path.to_string())
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
