//! `asap export`: writes the rows of an output as plain Parquet.

use asap_pipelines::outputs::export;
use clap::Args;

use crate::failure::Failure;
use crate::output::{SummaryFormat, complain, count, print_as, several};

/// Write the rows of an output as plain Parquet with a dataset card, for trainers and the datasets library
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap export out/pruned --to pruned-dataset
  python -c 'import datasets; print(datasets.load_dataset(\"pruned-dataset\"))'")]
pub struct ExportArgs {
    /// The output of a run
    #[arg(value_name = "LOC")]
    location: String,
    /// Write to this folder, which must be new or empty
    #[arg(long, value_name = "DIR")]
    to: String,
    /// Set the output format; json prints a single line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
}

pub async fn run(args: ExportArgs) -> Result<(), Failure> {
    let about = about(&args.location).await?;
    let done = export::export(&args.location, &args.to, about.as_deref()).await?;
    if !done.finished {
        complain("note: the output is not finished: asap table status shows which rows are missing");
    }
    let line = || {
        let (files, rows, bytes) = (several(done.files, "file"), several(done.rows, "row"), count(done.bytes));
        format!("{}: {rows} of table version {} in {files}, {bytes} bytes", done.to, done.table_version)
    };
    Ok(print_as(args.format, &done, line)?)
}

/// What asap view shows of the output, for the dataset card. None if the output has no steps or rows to show.
#[cfg(feature = "view")]
async fn about(location: &str) -> Result<Option<String>, Failure> {
    asap_view::card(location).await
}

#[cfg(not(feature = "view"))]
async fn about(_: &str) -> Result<Option<String>, Failure> {
    Ok(None)
}
