//! Checks of a run before its first row: of its locations, its pipeline, and, for a schedule, of all that can be checked
//! early.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, config_err, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use url::Url;

use asap_llm::Llm;
use asap_llm::provider::Provider;
use asap_udfs::{Models, Settings};

use super::job::{Effort, Job};
use super::request::Request;
use super::{plan, unusual};
use crate::corpus::{CORPUS, Corpus, Fit, Source};
use crate::pipeline_session::pipeline_session;
use crate::statement::check_text;
use crate::{builtin, location};

/// Checks a run as [`run`](super::run) does before it reads a row. Nothing is written, downloaded or asked. If a location or a
/// model is not on this machine, checks only the locations, the settings and the pipeline, and returns what is missing.
///
/// # Errors
/// As a run does before it reads a row, and if a file of the input fails.
pub async fn check(mut request: Request) -> Result<Option<String>> {
    let (sources, to) = locations(&request)?;
    check_sql(&request.sql)?;
    if let Some(missing) = missing(&request, &sources, &to) {
        sketch(request).await?;
        return Ok(Some(missing));
    }
    let mut job = Job::open(&mut request, Effort::Estimate).await?;
    if let Some(failure) = job.summary.files_failed.first() {
        return Err(failure.clone().into());
    }
    let Some(group) = job.slices.first().map(|slice| slice.group) else { return Ok(None) };
    let pipeline = job.pipeline(&request).await?;
    let template = job.template(&pipeline, group).await?;
    job.writing(&pipeline, template.as_ref(), &request)?;
    Ok(None)
}

/// What a run needs that is not on this machine.
fn missing(request: &Request, sources: &[Source], to: &Url) -> Option<String> {
    let settings = &request.settings;
    for source in sources {
        match location::local_path(&source.url) {
            None => return Some(format!("{} is not on this machine", location::redact(&source.typed))),
            Some(path) if !path.exists() => return Some(format!("there is no file or folder {} yet", source.typed)),
            Some(_) => {}
        }
    }
    if location::local_path(to).is_none() {
        return Some(format!("{} is not on this machine", location::display(to)));
    }
    if settings.scorer_base_url.is_some() {
        return Some("a server has the scoring model".to_string());
    }
    let asked = settings.anchor_model.as_ref().filter(|_| settings.anchor_provider == Provider::Local);
    let mut models = std::iter::once(&settings.scorer_model).chain(&settings.compressor_model).chain(asked);
    models.find(|model| asap_lm::find(model).is_none()).map(|model| format!("the model {model} is not on this machine"))
}

/// Plans the pipeline over a corpus without columns of its own, and without the models.
async fn sketch(mut request: Request) -> Result<()> {
    if builtin::chooses(&request.name) {
        return Ok(());
    }
    let has_encoder = request.settings.compressor_model.as_ref().is_none_or(|model| asap_lm::find(model).is_some());
    let Settings { scorer_model, scorer_backend, scorer_device, scorer_base_url, .. } = Settings::default();
    request.settings =
        Settings { scorer_model, scorer_backend, scorer_device, scorer_base_url, ..request.settings.clone() };
    let context = pipeline_session(request.settings.clone(), &Llm::estimate(None), &Models::counting())?;
    let corpus = Corpus::recognize(&context.state(), vec![], None, Fit::Query).await?;
    match planned(&context, &corpus, &request).await {
        // The input may have the column.
        Err(error) if matches!(error.find_root(), DataFusionError::SchemaError(..)) => Ok(()),
        Ok(pipeline) if has_encoder && request.settings.anchor_provider != Provider::Local => {
            context.state().optimize(&pipeline).map(drop)
        }
        planned => planned.map(drop),
    }
}

/// The locations of input and output. They must not overlap, or the next run would read its own output.
pub(super) fn locations(request: &Request) -> Result<(Vec<Source>, Url)> {
    let sources = request.from.iter().map(|from| from.parse()).collect::<Result<Vec<Source>>>()?;
    let to = location::folder(&request.to)?;
    let text = |url: &Url| {
        // Compare the targets of links, since these are read and written.
        let real =
            location::local_path(url).and_then(|path| real_path(&path)).and_then(|path| Url::from_file_path(path).ok());
        let text = real.as_ref().unwrap_or(url).as_str().replacen("s3a://", "s3://", 1);
        if text.ends_with('/') { text } else { format!("{text}/") }
    };
    for source in &sources {
        if let Some((table, version)) = source.typed.split_once('?').filter(|_| source.is_pattern())
            && ["version", "timestamp"].iter().any(|word| version.starts_with(word))
        {
            return config_err!(
                "{} names a version, but asap reads the newest version of a table: write {table}",
                source.typed
            );
        }
        let (from, to_text) = (text(&source.url), text(&to));
        if to_text.starts_with(&from) && !source.url.path().ends_with(".parquet") {
            return config_err!(
                "the output {} is inside the input {}: choose another output",
                location::display(&to),
                source.typed
            );
        }
        if from.starts_with(&to_text) {
            return config_err!(
                "the input {} is inside the output {}: choose another output",
                source.typed,
                location::display(&to)
            );
        }
    }
    unusual::check_around(&to)?;
    Ok((sources, to))
}

fn real_path(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|above| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?)))
}

pub(super) async fn planned(context: &SessionContext, corpus: &Corpus, request: &Request) -> Result<LogicalPlan> {
    context.register_table(CORPUS, Arc::new(plan::CorpusTable::new(corpus.schema())))?;
    unusual::check_generations(request, &corpus.schema())?;
    let pipeline = context.state().create_logical_plan(&request.sql).await;
    let pipeline = pipeline.map_err(|error| unusual::explained(request, corpus, error))?;
    plan::check(&pipeline)?;
    Ok(pipeline)
}

/// Checks that a pipeline is one query that can be planned. What cannot be parsed is an error of the planner.
pub(super) fn check_sql(sql: &str) -> Result<()> {
    check_text(sql, &GenericDialect {})?;
    let statements = DFParser::parse_sql_with_dialect(sql, &GenericDialect {}).unwrap_or_default();
    let is_query = |statement: &Statement| matches!(statement, Statement::Statement(sql) if matches!(**sql, SqlStatement::Query(_)));
    if statements.len() > 1 {
        return plan_err!(
            "a pipeline is one SELECT from corpus, found {} statements: keep the SELECT, and pass settings to the run",
            statements.len()
        );
    }
    match statements.iter().find(|statement| !is_query(statement)) {
        None => Ok(()),
        Some(found) => {
            let found = found.to_string();
            let word = found.split_whitespace().next().unwrap_or_default();
            plan_err!("a pipeline is one SELECT from corpus, found a statement {word}: the run itself writes the rows")
        }
    }
}
