//! `asap view`: what pruning did to a corpus, in the browser or as one file.

use std::path::PathBuf;

use asap_view::{Request, report_file};
use clap::Args;

use crate::failure::Failure;

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
    #[arg(long = "where", value_name = "SQL")]
    filter: Option<String>,
    /// Serve on this port of 127.0.0.1 (default: a free one)
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, conflicts_with = "to")]
    port: u16,
    /// Open the address in a browser
    #[arg(long, conflicts_with = "to")]
    open: bool,
}

pub async fn run(args: ViewArgs) -> Result<(), Failure> {
    let ViewArgs { location, to, against, exam, filter, port, open } = args;
    if filter.is_some() && to.is_none() {
        let what = "--where chooses the chains of a file: add --to report.html, or type the condition into the search of \
                    the pages";
        return Err(Failure::Usage(what.to_string()));
    }
    asap_view::run(Request { location, to, against, exam, filter, port, is_opened: open }).await
}
