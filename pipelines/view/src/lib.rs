//! `asap view`: what pruning did to a corpus, in the browser or as one file.
//!
//! ```text
//!   output, rejects, history ─ queries ─▶ rows ─ pictures ─▶ report ─▶ one file, or pages of a server
//!                            └ chain ───▶ steps ───────────▶        └▶ a terminal (asap inspect --chain)
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`source`], [`place`] | an output at one version, the rows of a query, and the names of rows |
//! | [`queries`], [`filter`], [`meant`], [`rewrite`] | the queries of the overview, filters and searches that users type, and what they mean |
//! | [`pictures`], [`choices`], [`svg`] | pictures of the rows; those of outputs that choose among chains |
//! | [`chain`], [`turns`], [`stages`], [`list`], [`reject`], [`report`], [`page`] | parts of pages |
//! | [`prose`], [`code`], [`text`] | texts as pages show them |
//! | [`server`], [`pages`], [`asked`] | the pages in the browser, and their addresses |
//! | [`faults`], [`health`] | the kinds of faults of rows; how `asap inspect --health` counts them |

mod asked;
pub mod chain;
mod choices;
mod code;
mod expression;
pub mod faults;
mod filter;
pub mod health;
mod list;
mod meant;
mod page;
mod pages;
mod pictures;
mod place;
mod prose;
mod queries;
mod reject;
mod report;
mod rewrite;
mod server;
mod source;
mod stages;
mod svg;
mod text;
mod turns;

use std::path::{Path, PathBuf};

use asap_kernels::front_end::Flag;
use datafusion::common::plan_err;

pub(crate) use asap_console::{failure, output, progress, signals, terminal};

use crate::failure::Failure;
use crate::output::note;
use crate::signals::unless_interrupted;
use filter::Condition;
use report::Report;
use source::Source;

/// Chains in a report.
const CHAINS: usize = 20;

/// What to show, and where.
#[derive(Debug)]
pub struct Request {
    /// The output of a run.
    pub location: String,
    /// The file to write: .html, .md or .json. Without it, a server shows the pages.
    pub to: Option<PathBuf>,
    /// A second output of the same input.
    pub against: Option<String>,
    /// The rows of an exam.
    pub exam: Option<String>,
    /// A condition in SQL that the chains of the file match.
    pub filter: Option<String>,
    /// The port of the server; 0 is a free one.
    pub port: u16,
    /// Whether the pages open in a browser.
    pub is_opened: bool,
}

/// Checks that a report can be written in the format of this name.
///
/// # Errors
/// With another ending.
pub fn report_file(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "md" | "json") => Ok(path),
        _ => Err("expected a name that ends in .html, .md or .json".to_string()),
    }
}

/// Writes a report, or serves the pages until a signal comes.
///
/// # Errors
/// If the output cannot be read, the filter is wrong, or the file or the port cannot be had.
pub async fn run(request: Request) -> Result<(), Failure> {
    request.to.as_deref().map_or(Ok(()), refuse_other)?;
    let report = unless_interrupted(show(&request)).await?;
    match &request.to {
        Some(to) => {
            unless_interrupted(write(&report, to)).await?;
            Ok(crate::output::print(&to.display().to_string())?)
        }
        None => server::serve(report, request.port, request.is_opened).await,
    }
}

async fn show(request: &Request) -> Result<Report, Failure> {
    let source = Source::open(&request.location, request.against.as_deref(), request.exam.as_deref()).await?;
    let selected = match &request.filter {
        Some(filter) => Some(
            selected(&source, filter)
                .await
                .map_err(|error| Failure::Usage(format!("--where: {}", crate::output::error_line(&error))))?,
        ),
        None => None,
    };
    Ok(Report { selected, ..Report::of(source).await? })
}

/// A filter that was typed, and the number of chains that it selects. Some mistakes show only on rows.
async fn selected(source: &Source, typed: &str) -> datafusion::common::Result<(Condition, u64)> {
    let filter = match Condition::checked(typed, &source.schema) {
        Ok(filter) => filter,
        Err(why) => match place::named(source, &source.location, &source.schema, typed).await? {
            Some((row, what)) => return plan_err!("expected a condition, found {what}: write {}", row.text),
            None => match place::InputRow::parse(typed.trim()) {
                Some(row) => return plan_err!("there is no row {row}: {}", row.missing(source).await?),
                None => return Err(why),
            },
        },
    };
    let selected = source.selected(Some(&filter)).await?;
    Ok((filter, selected))
}

/// The report of an output as HTML for a notebook. Writes also the file that `asap view --to` writes, if `to` names one.
///
/// # Errors
/// As `asap view`.
pub async fn frame(
    location: &str,
    against: Option<&str>,
    exam: Option<&str>,
    to: Option<&str>,
) -> Result<String, Failure> {
    let to = to.map(report_file).transpose().map_err(Failure::Usage)?;
    to.as_deref().map_or(Ok(()), refuse_other)?;
    let report = Report::of(Source::open(location, against, exam).await?).await?;
    let frame = report.frame().into_string();
    if let Some(to) = to {
        write(&report, &to).await?;
    }
    Ok(frame)
}

/// What a dataset card says of an output. None if the output has no steps or chains to show, or cannot be read.
///
/// # Errors
/// If a query of the overview fails.
pub async fn card(location: &str) -> Result<Option<String>, Failure> {
    match Source::open(location, None, None).await {
        Ok(source) if source.status.rows > 0 => Ok(Some(Report::of(source).await?.card())),
        _ => Ok(None),
    }
}

/// Refuses to replace a file that is no report.
fn refuse_other(to: &Path) -> Result<(), Failure> {
    let Ok(held) = std::fs::read(to) else { return Ok(()) };
    let held = String::from_utf8_lossy(&held);
    let is_report = match to.extension().and_then(|extension| extension.to_str()) {
        Some("md") => held.starts_with("# ") && held.lines().next().is_some_and(|title| title.contains(", version ")),
        Some("json") => held.starts_with('{') && held.contains("\"table_version\":"),
        _ => held.contains(page::WRITTEN_BY),
    };
    match is_report || held.trim().is_empty() {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "{} is there, and is no report of asap view: pass another {}, or delete it",
            to.display(),
            Flag("--to")
        ))),
    }
}

async fn write(report: &Report, to: &Path) -> Result<(), Failure> {
    let chains = report.drawn(CHAINS).await?;
    let text = match to.extension().and_then(|extension| extension.to_str()) {
        Some("md") => report.markdown(&chains),
        Some("json") => format!("{:#}\n", report.json(&chains)),
        _ => report.file(&chains),
    };
    let failed = |error| Failure::Failed(format!("cannot write {}: {error}", to.display()));
    std::fs::write(to, text).map_err(failed)?;
    if chains.is_empty() {
        let looser = report.selected.as_ref().and_then(|(filter, _)| filter.looser(&report.source.schema));
        note(match (&report.selected, looser.and_then(|meant| Some((meant.said, meant.filter?)))) {
            (Some(_), Some((said, filter))) => format!("no chain passes --where. {said} {filter}?"),
            (Some(_), None) => "no chain passes --where".to_string(),
            (None, _) => "all rows were rejected: there is no chain".to_string(),
        });
    }
    Ok(())
}
