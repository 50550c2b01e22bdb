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
//! | [`queries`], [`filter`], [`meant`] | the queries of the overview, filters and searches that users type, and what they mean |
//! | [`pictures`], [`choices`], [`svg`] | pictures of the rows; those of outputs that choose among chains |
//! | [`chain`], [`turns`], [`stages`], [`list`], [`reject`], [`report`], [`page`] | parts of pages |
//! | [`prose`], [`code`], [`text`] | texts as pages show them |
//! | [`server`], [`pages`] | the pages in the browser |
//! | [`faults`], [`health`] | the kinds of faults of rows; how `asap inspect --health` counts them |

pub mod chain;
mod choices;
mod code;
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
mod server;
mod source;
mod stages;
mod svg;
mod text;
mod turns;

use std::path::{Path, PathBuf};

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
    let filter = Condition::checked(typed, &source.schema)?;
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
        note(if report.selected.is_some() {
            "no chain passes --where"
        } else {
            "all rows were rejected: there is no chain"
        });
    }
    Ok(())
}
