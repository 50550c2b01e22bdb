//! Recognizes the shape of a schema by its column names and by the first rows.

mod doubts;
mod row_flags;

use asap_kernels::{rendered, tags};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields, Schema};
use datafusion::catalog::Session;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{Expr, cast, col};
use serde::de::IgnoredAny;

use crate::corpus::rules::{ANSWERS, CHAINS, FLAGS, OWN, QUESTIONS};
use crate::corpus::scan::first_rows::{FIRST_ROWS, first_rows};
use crate::corpus::scan::table::FilesTable;
use crate::corpus::shape::expressions::text;
use crate::corpus::shape::mapping::{self, BLANK, ColumnMapping};
use crate::corpus::shape::path::Path;
use crate::corpus::shape::reading::Functions;
use crate::corpus::shape::reading::own_turns;
use crate::corpus::shape::types::are_turns;
use crate::corpus::shape::{self, Response, Shape};
use crate::corpus::view;

struct TextTags {
    path: Path,
    rows: usize,
    tagged: usize,
    /// Texts that are a conversation, rendered by a chat template.
    rendered: usize,
    /// What may be the opening tag of a chain, of the first text with one.
    unread: Option<String>,
}

pub(crate) async fn shape_of(
    session: &dyn Session,
    table: &FilesTable,
    schema: &Schema,
    mapping: Option<&ColumnMapping>,
    file: &str,
    notes: &mut Vec<String>,
) -> Result<Shape> {
    let mut shape = match mapping {
        Some(mapping) => shape::mapped(schema, mapping, file)?,
        None => recognized(session, table, schema, file, notes).await?,
    };
    // The chains of an output are pruned.
    if shape.rule != OWN || shape::find(schema, "source").is_none() {
        notes.extend(doubts::single_line_breaks(session, table, &shape, file).await?);
    }
    if shape.rule == OWN {
        return Ok(shape);
    }
    if mapping.is_none() {
        shape.flags = row_flags::of_rows(session, table, &shape, file, notes).await?;
    }
    if let Some((list, chosen)) = shape.list(table.file_schema()) {
        let rows: u64 = table.files().iter().map(|held| held.rows()).sum();
        let items = table.items(list).unwrap_or(rows);
        if items > rows {
            notes.push(format!(
                "of the {items} generations of column {list} in {rows} rows of {}, asap reads one per row, {chosen}: {} are left out",
                like(table),
                items - rows
            ));
        }
    }
    if let Response::Generations(generations) = &shape.response
        && !generations.has_flags()
    {
        notes.push(format!(
            "every row of {file} will be rejected: no column says which of its {} are correct ({}); to take the first: {}",
            generations.list,
            FLAGS.join(", "),
            shape.mapping().flag()
        ));
    }
    notes.extend(doubts::notes(session, table, &shape, file).await?);
    Ok(shape)
}

fn like(table: &FilesTable) -> String {
    let file = table.files().first().map_or("", |held| held.file.path.as_str());
    match table.files().len() {
        0 | 1 => file.to_string(),
        files => format!("{file} and {} files like it", files - 1),
    }
}

async fn recognized(
    session: &dyn Session,
    table: &FilesTable,
    schema: &Schema,
    file: &str,
    notes: &mut Vec<String>,
) -> Result<Shape> {
    // A column that is NULL in every row is no column, unless nothing else fits.
    let is_filled = |field: &&FieldRef| !field.data_type().is_null();
    let filled = Schema::new(schema.fields().iter().filter(is_filled).cloned().collect::<Fields>());
    let misfit = match shape::by_names(&filled, file) {
        Ok(shapes) => match readable(session, table, shapes).await? {
            Some(shape) => return Ok(shape),
            None => None,
        },
        // Values take precedence over names.
        Err(misfit) => Some(misfit),
    };
    let refused = match by_tags(session, table, file, notes).await {
        Ok(shape) => return Ok(shape),
        Err(refused) => misfit.unwrap_or(refused),
    };
    if filled.fields().len() < schema.fields().len()
        && let Some(shape) = readable(session, table, shape::by_names(schema, file)?).await?
    {
        return Ok(shape);
    }
    Err(refused)
}

/// Of the shapes that fit by name, the first that reads most of the first rows without a status; else the first. None if
/// its answers are whole generations, whose chains are not those of the chain column.
async fn readable(session: &dyn Session, table: &FilesTable, shapes: Vec<Shape>) -> Result<Option<Shape>> {
    for shape in &shapes {
        // Conversations of an output have a status, and their chains are no others.
        if own_turns(table.file_schema(), shape).is_some() {
            return Ok(Some(shape.clone()));
        }
        let has_chains = matches!(shape.response, Response::Columns { .. }) && shape.rule != OWN;
        if shapes.len() == 1 && !has_chains {
            break;
        }
        let rows = |table: &FilesTable| view::of_files(session, table, shape, &[]);
        let batches = first_rows(session, table, FIRST_ROWS, &[text(col("status"))], rows).await?;
        let statuses: Vec<_> = batches.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter()).collect();
        let is_most = |status| statuses.iter().filter(|found| **found == status).count() * 2 > statuses.len();
        if is_most(None) {
            return Ok(Some(shape.clone()));
        }
        if has_chains && is_most(Some("tags_in_answer")) {
            return Ok(None);
        }
    }
    Ok(shapes.into_iter().next())
}

/// The shape by values: exactly one text has think tags in most of its first rows. Columns precede texts within
/// columns.
async fn by_tags(session: &dyn Session, table: &FilesTable, file: &str, notes: &mut Vec<String>) -> Result<Shape> {
    let schema = table.file_schema();
    let texts = count_tags(session, table).await?;
    // Some generations may be cut before their closing tag.
    let are_tagged: Vec<&TextTags> = texts.iter().filter(|text| text.tagged * 2 > text.rows).collect();
    let (columns, within): (Vec<&TextTags>, Vec<_>) = are_tagged.into_iter().partition(|text| text.path.is_column());
    let tagged = if columns.is_empty() { within } else { columns };
    // Rejects often have no tags, but users must be able to read them.
    if tagged.is_empty()
        && is_rejects(schema)
        && let Some(shape) = shape::named_as(ANSWERS, schema, file)
    {
        return Ok(shape);
    }
    let shape = match tagged.as_slice() {
        [only] if only.path.is_column() && only.rendered * 2 > only.rows => {
            notes
                .push(format!("column {} of {file} is read as a conversation, rendered by a chat template", only.path));
            return Ok(Shape::of_conversation(schema, only.path.clone()));
        }
        [only] => shape::with_tags(schema, only.path.clone(), file),
        _ => None,
    };
    if let (None, [only]) = (&shape, shape::conversations_within(schema).as_slice())
        && let Some(shape) = shape::with_conversation(schema, only.clone(), file)
    {
        notes.push(format!("column {only} of {file} is read as the conversation"));
        return Ok(shape);
    }
    let Some(shape) = shape else { return refuse(schema, file, &texts, &tagged) };
    let [question, ..] = shape.described();
    notes.push(format!(
        "column {} of {file} has think tags and is read as the generation; the question is in column {question}",
        tagged[0].path
    ));
    Ok(shape)
}

fn is_rejects(schema: &Schema) -> bool {
    let first = schema.fields().iter().take(3).map(|field| field.name().as_str());
    first.eq(["source", "status", "error"])
}

async fn count_tags(session: &dyn Session, table: &FilesTable) -> Result<Vec<TextTags>> {
    let schema = table.file_schema();
    let paths = Path::texts(schema);
    if paths.is_empty() {
        return Ok(vec![]);
    }
    let functions = Functions::of(session)?;
    let value = |path: &Path| match shape::has_type(schema, path.name(), are_turns) {
        // In a conversation, the text could be from any speaker.
        true => Ok(path.expr(schema)),
        false => path.first_that(schema, |text| functions.think(text)),
    };
    let texts = paths
        .iter()
        .enumerate()
        .map(|(place, path)| Ok(cast(value(path)?, DataType::Utf8View).alias(format!("text_{place}"))));
    let texts = texts.collect::<Result<Vec<Expr>>>()?;
    let batches = first_rows(session, table, FIRST_ROWS, &texts, |table| table.plan()?.build()).await?;
    let seen = paths.into_iter().enumerate().map(|(place, path)| {
        let mut counts = TextTags { path, rows: 0, tagged: 0, rendered: 0, unread: None };
        for text in batches.iter().flat_map(|batch| batch.column(place).as_string_view().iter().flatten()) {
            counts.rows += 1;
            let is_exchange = |turns: Vec<rendered::Turn>| turns.len() > 1;
            counts.rendered += usize::from(rendered::turns(text).is_some_and(is_exchange));
            match tags::think(text) {
                // A list or a conversation that is kept as JSON text is not one generation.
                Some(_) if is_json(text) => {}
                Some(_) => counts.tagged += 1,
                None => counts.unread = counts.unread.or_else(|| tags::unread(text).map(str::to_string)),
            }
        }
        counts
    });
    Ok(seen.collect())
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['[', '{']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn refuse<T>(schema: &Schema, file: &str, texts: &[TextTags], tagged: &[&TextTags]) -> Result<T> {
    if ["pipeline", "share", "survives"].iter().all(|name| schema.field_with_name(name).is_ok()) {
        return exec_err!(
            "{file} is an exam, and no corpus: asap view OUT --exam LOC shows it next to the output of its pipeline"
        );
    }
    let named = |names: &[&str]| {
        let mut held = names.iter().filter_map(|name| shape::find(schema, name));
        let is_text = |name: &String| texts.iter().any(|text| text.path == Path::column(name));
        held.find(is_text).unwrap_or_else(|| BLANK.to_string())
    };
    let question = named(QUESTIONS);
    let some_tagged: Vec<&TextTags> = texts.iter().filter(|text| text.tagged > 0).collect();
    let (why, mapping) = match tagged {
        [] if let [only] = some_tagged.as_slice() => (
            format!(
                "{} of the first {} rows of {} have think tags, which is too few to be sure",
                only.tagged, only.rows, only.path
            ),
            vec![
                ("question", if only.path == Path::column(&question) { BLANK.to_string() } else { question }),
                ("cot", only.path.to_string()),
            ],
        ),
        [] => {
            let cot = named(CHAINS);
            // The answer column depends on the chain column.
            let answer = if cot == BLANK { BLANK.to_string() } else { named(ANSWERS) };
            let unread = texts.iter().find_map(|text| Some((text.unread.as_ref()?, &text.path)));
            let unread = unread.map(|(tag, path)| format!(" ({path} has {tag}, which is not one that asap reads)"));
            let unread = unread.unwrap_or_default();
            let why = format!("no text has think tags in most of its first {FIRST_ROWS} rows{unread}");
            (why, vec![("question", question), ("cot", cot), ("answer", answer)])
        }
        [only] => (
            format!("{} has think tags, but no other column has a name that asap knows for questions", only.path),
            vec![("question", BLANK.to_string()), ("cot", only.path.to_string())],
        ),
        several => {
            let names: Vec<String> = several.iter().map(|text| text.path.to_string()).collect();
            let why = format!("several texts have think tags, {}", names.join(" and "));
            let question = if names.contains(&question) { BLANK.to_string() } else { question };
            (why, vec![("question", question), ("cot", BLANK.to_string())])
        }
    };
    exec_err!(
        "the columns of {file} fit no shape that asap recognizes, and {why}: {}; name a column for each {BLANK}: {} \
         (without answer, cot is the whole generation; SELECT * FROM corpus_shapes() lists the known shapes)",
        shape::names(schema),
        mapping::flag(mapping.iter().map(|(key, name)| (*key, name.as_str())))
    )
}
