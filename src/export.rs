//! `asap export`: writes the rows of an output as plain Parquet.

use asap_pipelines::outputs::export::{self, Exported, Messages};
use asap_pipelines::outputs::upload;
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::output::{SummaryFormat, count, note, print_summary, several};

/// Write the rows of an output as plain Parquet with a dataset card, for trainers and the datasets library
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap export out/pruned --to pruned-dataset
  asap export out/pruned --to hf://datasets/org/name --dry-run
  python -c 'import datasets; print(datasets.load_dataset(\"pruned-dataset\"))'")]
pub struct ExportArgs {
    /// The output of a run
    #[arg(value_name = "LOC")]
    location: String,
    /// Write to this folder, which must be new or empty, or with the command hf to a dataset of the Hugging Face Hub,
    /// hf://datasets/org/name
    #[arg(long, value_name = "DIR")]
    to: String,
    /// Replace a dataset of the Hub that asap did not write
    #[arg(long)]
    replace: bool,
    /// Show what would be uploaded to the Hub, and upload nothing
    #[arg(long)]
    dry_run: bool,
    /// Export the columns of an output without rows, too
    #[arg(long)]
    allow_empty: bool,
    /// Choose where conversations with several exchanges or tools have the pruned thoughts
    #[arg(long, value_enum, default_value_t = Form::Openai)]
    messages: Form,
    /// Set the output format; json prints a single line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    /// In the columns turns and messages
    Openai,
    /// Also in the columns that came in, each in its own form
    Original,
}

pub async fn run(args: ExportArgs) -> Result<(), Failure> {
    if [".parquet", ".jsonl", ".json", ".csv"].iter().any(|ending| args.to.ends_with(ending)) {
        let what = format!("--to takes a folder, which gets Parquet files and a dataset card, found {}", args.to);
        return Err(Failure::Usage(what));
    }
    let about = about(&args.location).await?;
    let messages = match args.messages {
        Form::Openai => Messages::OpenAi,
        Form::Original => Messages::Original,
    };
    if !upload::is_dataset(&args.to) {
        if args.replace || args.dry_run {
            let what = "--replace and --dry-run are for a dataset of the Hub: --to hf://datasets/org/name";
            return Err(Failure::Usage(what.to_string()));
        }
        let done = export::export(&args.location, &args.to, about.as_deref(), args.allow_empty, messages).await?;
        note_unfinished(&done);
        return Ok(print_summary(args.format, &done, || line(&done))?);
    }
    let ExportArgs { location, to, replace, dry_run, allow_empty, .. } = &args;
    let done = upload::upload(location, to, about.as_deref(), *replace, *dry_run, *allow_empty, messages).await?;
    note_unfinished(&done.exported);
    let lines = || {
        let files = done.uploads.iter().map(|(file, bytes)| format!("\n  {file}, {} bytes", count(*bytes)));
        let replaced = if done.replaces { ", replaces the files of the dataset" } else { ", a new private dataset" };
        let planned = if args.dry_run { "would upload " } else { "" };
        format!("{planned}{}{replaced}{}", line(&done.exported), files.collect::<String>())
    };
    Ok(print_summary(args.format, &done, lines)?)
}

fn note_unfinished(done: &Exported) {
    if !done.finished {
        note("the output is not finished: asap table status shows which rows are missing");
    }
}

fn line(done: &Exported) -> String {
    let (files, rows, bytes) = (several(done.files, "file"), several(done.rows, "row"), count(done.bytes));
    format!("{}: {rows} of table version {} in {files}, {bytes} bytes", done.to, done.table_version)
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
