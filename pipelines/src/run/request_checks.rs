//! Checks of a request that a run and a check of it share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::{Result, config_err, plan_err};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use url::Url;

use super::request::Request;
use super::{plan, unusual};
use crate::corpus::{CORPUS, Corpus, Source};
use crate::location;
use crate::statement::check_text;

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

/// The plan of a pipeline over the corpus.
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
