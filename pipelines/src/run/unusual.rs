//! What is unusual about a run, and worth a note before its rows: most often, something else was meant.

use std::path::Path;

use asap_kernels::front_end::Flag;
use asap_udfs::typo;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, Result, SchemaError, config_err, plan_datafusion_err};
use datafusion::logical_expr::LogicalPlan;
use url::Url;

use super::output::Output;
use super::request::Request;
use crate::asap_folder::FOLDER;
use crate::builtin;
use crate::corpus::{CORPUS, Corpus, CorpusFile, Source, Table};
use crate::delta;
use crate::location;
use crate::passed_on::passed_on;
use crate::run::ledger::{Ledger, RetriedSlice};
use crate::run::output::provenance::{Provenance, WRITTEN_BY};
use crate::run::output::table_properties::{PROVENANCE, decode};
use crate::statement::alias_of_select;

/// Endings of files with rows.
const FILES: [&str; 4] = ["parquet", "jsonl", "json", "csv"];

/// Checks that a pipeline that chooses among generations gets some.
pub(super) fn check_generations(request: &Request, corpus: &Schema) -> Result<()> {
    let has = |column: &str| corpus.field_with_name(column).is_ok();
    let why = match (builtin::chooses(&request.name), has("generations"), has("generation")) {
        (true, false, _) => {
            let flag = Flag("--generations");
            format!("has no column generations, a list of texts: asap eval with {flag} writes such rows")
        }
        (true, true, true) => {
            "has the column generation too, which it adds: name only files with the column generations".to_string()
        }
        _ => return Ok(()),
    };
    let (name, from) = (&request.name, location::redact(&request.from.join(", ")));
    config_err!("the pipeline {name} chooses among several generations of a question, and {from} {why}")
}

/// Checks that a new output is not in a table. What a table keeps about itself may be in it.
pub(super) fn check_around(to: &Url) -> Result<()> {
    let is_table = |path: &Path| path.join(delta::FOLDER).is_dir();
    let Some(path) = location::local_path(to).filter(|path| !is_table(path)) else { return Ok(()) };
    match path.ancestors().skip(1).find(|around| is_table(around)) {
        Some(table) if !path.strip_prefix(table).is_ok_and(|rest| rest.starts_with(FOLDER)) => config_err!(
            "the output {} is inside the table {}, whose log would not have these rows: choose another output",
            location::display(to),
            Url::from_directory_path(table).map_or(table.display().to_string(), |table| location::display(&table))
        ),
        _ => Ok(()),
    }
}

/// The error of a pipeline that reads another table, computes a column with the name of one of the input, or reads one that it
/// computes itself.
pub(super) fn explained(request: &Request, corpus: &Corpus, error: DataFusionError) -> DataFusionError {
    if let DataFusionError::Plan(said) = error.find_root()
        && let Some(table) =
            said.strip_prefix("table 'datafusion.public.").and_then(|rest| rest.strip_suffix("' not found"))
        && typo::nearest(table, [CORPUS]).is_none()
    {
        return plan_datafusion_err!(
            "a pipeline reads only the table corpus, which has the rows of all sources, found '{table}': it cannot contain joins. \
             Write the joined rows with asap sql (COPY … TO), and run over these"
        );
    }
    let DataFusionError::SchemaError(found, _) = error.find_root() else { return error };
    let name = match found.as_ref() {
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => name,
        SchemaError::AmbiguousReference { field } => &field.name,
        SchemaError::FieldNotFound { field, .. } if field.relation.is_none() => {
            return alias_of_select(&field.name, &request.sql).map_or(error, |said| plan_datafusion_err!("{said}"));
        }
        SchemaError::FieldNotFound { .. } => return error,
    };
    if !corpus.original_columns().contains(name) {
        return error;
    }
    plan_datafusion_err!(
        "the pipeline {} computes a column {name}, and {} has a column of this name: rename the column of the input, or print \
         the pipeline ({}), and rename its column",
        request.name,
        location::redact(&request.from.join(", ")),
        Flag("--print")
    )
}

/// A note on a new output whose name is that of a file.
pub(super) fn named_like_a_file(request: &Request, output: &Output) -> Option<String> {
    let is_file = FILES.iter().any(|ending| request.to.ends_with(&format!(".{ending}")));
    (is_file && output.table().is_none())
        .then(|| format!("{} becomes a folder with a Delta table, as each output is", location::redact(&request.to)))
}

/// A note on an input whose chains a run has pruned already.
pub(super) fn pruned_input(request: &Request, table: &Table) -> Option<String> {
    let made = decode::<Provenance>(&table.log.state, PROVENANCE)?;
    request.sql.contains(builtin::BUDGET).then(|| pruned_by(&table.shown(), &made)).flatten()
}

/// A note on a location whose chains a run has pruned.
pub(crate) fn pruned_by(location: &str, made: &Provenance) -> Option<String> {
    (!builtin::prunes_nothing(&made.pipeline)).then(|| {
        format!(
            "{location} is an output of the pipeline {}: chains that it pruned are pruned a second time. Their originals are in {}",
            made.pipeline,
            made.input.join(", ")
        )
    })
}

/// A note on an input that is an export of a pruned output: its card names the pipeline.
pub(super) fn exported_input(request: &Request, source: &Source) -> Option<String> {
    let path = location::local_path(&source.url).filter(|_| request.sql.contains(builtin::BUDGET))?;
    let folder = if path.is_file() { path.parent()? } else { &path };
    let card = std::fs::read_to_string(folder.join("README.md")).ok().filter(|card| card.contains(WRITTEN_BY))?;
    let pipeline = card.lines().find_map(|line| line.strip_prefix("| pipeline | ")?.strip_suffix(" |"))?;
    (!builtin::prunes_nothing(pipeline)).then(|| {
        let shown = location::display(&source.url);
        format!("{shown} is an export of the pipeline {pipeline}: chains that it pruned are pruned a second time")
    })
}

/// A note on a pipeline of a user that passes chains on as they are.
pub(super) fn prunes_nothing(request: &Request, pipeline: &LogicalPlan) -> Option<String> {
    let is_meant = builtin::names().contains(&request.name.as_str());
    (!is_meant && passed_on(pipeline, "cot", &[]).as_deref() == Some("cot")).then(|| {
        format!(
            "the pipeline {} prunes nothing: its column cot is that of corpus. pruned((SELECT *, … AS kept FROM corpus), 'mine') \
             returns the kept steps",
            request.name
        )
    })
}

/// A note on an output that has rows of another input, and none of this one.
pub(super) fn other_input(output: &Output, ledger: &Ledger, files: &[CorpusFile], request: &Request) -> Option<String> {
    let held = output.table().and_then(|log| decode::<Provenance>(&log.state, PROVENANCE))?.input;
    let is_other = ledger.rows > 0 && !files.is_empty() && files.iter().all(|file| ledger.file(&file.path).is_none());
    let (held, from) = (held.join(", "), location::redact(&request.from.join(", ")));
    (is_other && held != from).then(|| {
        format!(
            "{} has rows of {held}: those of {from} are added. Choose another output to keep them apart",
            location::redact(&request.to)
        )
    })
}

/// A note on a retry of no rows.
pub(super) fn without_rejects(request: &Request, again: &[RetriedSlice]) -> Option<String> {
    let asked = request.retry_rejects.as_ref().filter(|_| again.is_empty())?;
    Some(match asked.as_slice() {
        [] => "the output has no rejects to retry".to_string(),
        asked => format!("no reject of the output has the status {}", asked.join(" or ")),
    })
}

/// A note on the rows of a retry.
pub(super) fn retried(slices: &[&RetriedSlice]) -> Option<String> {
    let rows: usize = slices.iter().map(|slice| slice.rows.len()).sum();
    (rows > 0).then(|| format!("rejected rows that are processed again: {rows}"))
}
