//! `asap status`, `history`, `verify`, `vacuum`, `optimize` and `export`: what an output of `asap run` holds, and how it is
//! kept in order.

mod tables;

use std::num::NonZeroU64;
use std::time::Duration;

use asap_pipelines::outputs;
use asap_pipelines::run::output::shards::SHARD_BYTES;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{SummaryFormat, print_as};

/// Where an output is, and how what is found is printed.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// The output of a run
    #[arg(value_name = "LOC")]
    location: String,
    /// How it is printed; json is one line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
}

impl PlaceArgs {
    fn print(&self, found: &impl Serialize, table: impl FnOnce() -> String) -> Result<(), Failure> {
        Ok(print_as(self.format, found, table)?)
    }
}

/// Say what an output holds: rows, rejects, files that are done, and whether it is complete
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  asap status out/pruned\n  asap status s3://lake/pruned --format json")]
pub struct StatusArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

/// Prints what an output holds.
pub async fn status(StatusArgs { place }: StatusArgs) -> Result<(), Failure> {
    let found = outputs::status::status(&place.location).await?;
    place.print(&found, || tables::status(&found))
}

/// List the commits of an output, newest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  asap history out/pruned --limit 10\n  asap history out/pruned --format json")]
pub struct HistoryArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// List at most so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Prints the commits of an output.
pub async fn history(HistoryArgs { place, limit }: HistoryArgs) -> Result<(), Failure> {
    let found = outputs::history::history(&place.location, limit).await?;
    place.print(&found, || tables::history(&found))
}

/// Check that every shard of an output can be read and every row is there once; exit code 1 if not
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap verify out/pruned
  asap verify s3://lake/pruned --quick --format json

Checked are the output and its rejects:
- every shard that the logs name is there with its size, and all its columns can be read (with --quick only the column source)
- every row is there once, and belongs to a slice that is done
- each file of the input has as many rows in the output and in the rejects as the commits of its slices say

Values are not compared with the input. A changed byte that leaves a shard readable is not found: Parquet's pages have no
checksums here.")]
pub struct VerifyArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Read only the column source of each shard
    #[arg(long)]
    quick: bool,
}

/// Checks an output.
pub async fn verify(VerifyArgs { place, quick }: VerifyArgs) -> Result<(), Failure> {
    let found = outputs::verify::verify(&place.location, quick).await?;
    place.print(&found, || tables::verified(&found))?;
    match found.faults.len() {
        0 => Ok(()),
        _ => Err(Failure::Failed(format!("{} is not sound:\n  {}", place.location, found.faults.join("\n  ")))),
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Remove what an output no longer names: replaced shards, and what killed runs left
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap vacuum out/pruned --dry-run
  asap vacuum out/pruned --retain 30d
  asap vacuum out/pruned --retain 0s --now

A version of the table that is older than --retain cannot be read afterwards. Paid answers stay.")]
pub struct VacuumArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Keep what is younger, or was replaced later: longer than any run or reader takes
    #[arg(long, value_name = "TIME", default_value = "168h", value_parser = humantime::parse_duration)]
    retain: Duration,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Confirm a --retain of less than a day, which deletes shards that a run in progress has not committed yet
    #[arg(long)]
    now: bool,
}

/// Removes what an output does not need.
pub async fn vacuum(VacuumArgs { place, retain, dry_run, now }: VacuumArgs) -> Result<(), Failure> {
    if retain < DAY && !now && !dry_run {
        let what = "--retain of less than a day deletes shards that a run in progress has not committed yet: add --now if no run \
                    is in progress";
        return Err(Failure::Usage(what.to_string()));
    }
    let done = outputs::vacuum::vacuum(&place.location, retain, dry_run).await?;
    place.print(&done, || tables::vacuumed(&done))
}

/// Merge small shards of an output into large ones; no row changes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap optimize out/pruned
  asap optimize out/pruned --target-bytes 536870912

A run that reads this output as its input does not read the merged shards: it knows their rows. But when a row of a merged
shard changes later, that run needs --on-change reprocess, and reads all merged shards again.")]
pub struct OptimizeArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Bytes of a large shard; smaller ones are merged
    #[arg(long, value_name = "N", default_value_t = SHARD_BYTES)]
    target_bytes: NonZeroU64,
}

/// Merges small shards.
pub async fn optimize(OptimizeArgs { place, target_bytes }: OptimizeArgs) -> Result<(), Failure> {
    let done = outputs::optimize::optimize(&place.location, target_bytes).await?;
    place.print(&done, || tables::optimized(&done))
}

/// Write the rows of an output as plain Parquet with a data card, for trainers and the datasets library
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap export out/pruned --to pruned-dataset
  python -c 'import datasets; print(datasets.load_dataset(\"pruned-dataset\"))'")]
pub struct ExportArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The folder to write to, which is empty or not there
    #[arg(long, value_name = "DIR")]
    to: String,
}

/// Writes the rows of an output as plain Parquet.
pub async fn export(ExportArgs { place, to }: ExportArgs) -> Result<(), Failure> {
    let done = outputs::export::export(&place.location, &to).await?;
    place.print(&done, || tables::exported(&done))
}
