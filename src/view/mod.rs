//! `asap view`: what pruning did to a corpus, in the browser or as one file.
//!
//! ```text
//!   output, rejects, history ─ queries ─▶ rows ─ pictures ─▶ report ─▶ one file, or pages of a server
//!                            └ chain ───▶ steps ───────────▶        └▶ a terminal (asap inspect --chain)
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`source`] | an output at one version, and the rows of a query |
//! | [`queries`], [`filter`] | the queries of the overview, and filters that users type |
//! | [`pictures`], [`svg`] | pictures of the rows |
//! | [`chain`], [`report`], [`page`], [`text`] | parts of pages |
//! | [`server`] | the pages in the browser |

pub(crate) mod chain;
mod filter;
mod page;
mod pictures;
mod queries;
pub(crate) mod report;
mod server;
pub(crate) mod source;
mod svg;
pub(crate) mod text;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;
use crate::output::note;
use crate::signals::unless_interrupted;
use filter::Condition;
use report::Report;
use source::Source;

/// Chains in a report.
const CHAINS: usize = 20;

/// Show what pruning did, chain by chain: in the browser, or as one file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap view out/pruned
  asap view out/pruned --to report.html
  asap view out/pruned --against out/random --exam out/exam --to report.html
  asap view out/pruned --where 'pruned_tokens < 100' --to short.md

Without --to, asap prints the address of a server on this machine that only reads the output.")]
pub struct ViewArgs {
    /// The output of a run
    #[arg(value_name = "LOC")]
    location: String,
    /// Write one file: .html, .md or .json
    #[arg(long, value_name = "FILE", value_parser = report_file)]
    to: Option<PathBuf>,
    /// Compare with a second output of the same input
    #[arg(long, value_name = "LOC")]
    against: Option<String>,
    /// Show whether answers survive, from the rows of asap exam
    #[arg(long, value_name = "LOC")]
    exam: Option<String>,
    /// Put only chains into the file that match this SQL condition over the columns of the output
    #[arg(long = "where", value_name = "SQL", requires = "to")]
    filter: Option<String>,
    /// Serve on this port of 127.0.0.1 (default: a free one)
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, conflicts_with = "to")]
    port: u16,
    /// Open the address in a browser
    #[arg(long, conflicts_with = "to")]
    open: bool,
}

/// Checks that a report can be written in the format of this name.
fn report_file(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "md" | "json") => Ok(path),
        _ => Err("expected a name that ends in .html, .md or .json".to_string()),
    }
}

pub async fn run(args: ViewArgs) -> Result<(), Failure> {
    let (port, is_opened, to) = (args.port, args.open, args.to.clone());
    let report = unless_interrupted(show(args)).await?;
    match to {
        Some(to) => {
            unless_interrupted(write(&report, &to)).await?;
            Ok(crate::output::print(&to.display().to_string())?)
        }
        None => server::serve(report, port, is_opened).await,
    }
}

async fn show(args: ViewArgs) -> Result<Report, Failure> {
    let source = Source::open(&args.location, args.against.as_deref(), args.exam.as_deref()).await?;
    let selected = match &args.filter {
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
        note("no chain passes --where");
    }
    Ok(())
}
