//! `asap status`, `history`, `verify`, `vacuum`, `optimize` and `export`: show and maintain an output of `asap run`.

mod tables;

use std::num::NonZeroU64;
use std::time::Duration;

use asap_pipelines::outputs;
use asap_pipelines::run::output::shards::SHARD_BYTES;
use clap::Args;

use crate::failure::Failure;
use crate::output::{SummaryFormat, complain, print_as};

#[derive(Debug, Args)]
struct PlaceArgs {
    /// The output of a run
    #[arg(value_name = "LOC")]
    location: String,
    /// Set the output format; json prints a single line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
}

/// Show what an output holds: rows, rejects, finished files, and whether it is complete
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  asap status out/pruned\n  asap status s3://lake/pruned --format json")]
pub struct StatusArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

pub async fn status(StatusArgs { place }: StatusArgs) -> Result<(), Failure> {
    let found = outputs::status::status(&place.location).await?;
    Ok(print_as(place.format, &found, || tables::status(&found))?)
}

/// List the commits of an output, newest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  asap history out/pruned --limit 10\n  asap history out/pruned --format json")]
pub struct HistoryArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// List at most N commits
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub async fn history(HistoryArgs { place, limit }: HistoryArgs) -> Result<(), Failure> {
    let found = outputs::history::history(&place.location, limit).await?;
    Ok(print_as(place.format, &found, || tables::history(&found))?)
}

/// Check that every shard of an output can be read and that every row occurs once; exit code 1 if not
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap verify out/pruned
  asap verify s3://lake/pruned --quick --format json

verify checks the output and its rejects:
- every shard in the logs exists with its size, and all its columns can be read (with --quick, only the column source)
- every row occurs once, and belongs to a finished slice
- each input file has as many rows in the output and in the rejects as the commits of its slices record

verify does not compare values with the input. verify does not find a changed byte that leaves a shard readable, because
the Parquet pages have no checksums.")]
pub struct VerifyArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Read only the column source of each shard
    #[arg(long)]
    quick: bool,
}

pub async fn verify(VerifyArgs { place, quick }: VerifyArgs) -> Result<(), Failure> {
    let found = outputs::verify::verify(&place.location, quick).await?;
    print_as(place.format, &found, || tables::verified(&found))?;
    match found.faults.len() {
        0 => Ok(()),
        _ => Err(Failure::Failed(format!(
            "{} has faults:\n  {}\nthe same asap run command processes the rows of missing and cut shards again; delete other \
             shards that cannot be read first",
            place.location,
            found.faults.join("\n  ")
        ))),
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Remove files that an output no longer uses: replaced shards, and leftovers of killed runs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap vacuum out/pruned --dry-run
  asap vacuum out/pruned --retain 30d
  asap vacuum out/pruned --retain 0s --now

After vacuum, you cannot read table versions older than --retain. vacuum keeps paid answers.")]
pub struct VacuumArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Keep files that were written or replaced within this time. Choose a time longer than any run or reader needs
    #[arg(long, value_name = "TIME", default_value = "168h", value_parser = humantime::parse_duration)]
    retain: Duration,
    /// List the files that would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Confirm a --retain of less than a day, which deletes shards that a run in progress has not committed yet
    #[arg(long)]
    now: bool,
}

pub async fn vacuum(VacuumArgs { place, retain, dry_run, now }: VacuumArgs) -> Result<(), Failure> {
    if retain < DAY && !now && !dry_run {
        let what = "--retain of less than a day deletes shards that a run in progress has not committed yet: add --now if no run \
                    is in progress";
        return Err(Failure::Usage(what.to_string()));
    }
    let done = outputs::vacuum::vacuum(&place.location, retain, dry_run).await?;
    Ok(print_as(place.format, &done, || tables::vacuumed(&done))?)
}

/// Merge small shards of an output into large shards, without changing rows
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap optimize out/pruned
  asap optimize out/pruned --target-bytes 536870912

If another run reads this output as its input, that run skips the merged shards. If a row of a merged shard changes
later, that run needs --on-change reprocess, and reads all merged shards again.")]
pub struct OptimizeArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Merge shards smaller than this size in bytes
    #[arg(long, value_name = "N", default_value_t = SHARD_BYTES)]
    target_bytes: NonZeroU64,
}

pub async fn optimize(OptimizeArgs { place, target_bytes }: OptimizeArgs) -> Result<(), Failure> {
    let done = outputs::optimize::optimize(&place.location, target_bytes).await?;
    Ok(print_as(place.format, &done, || tables::optimized(&done))?)
}

/// Write the rows of an output as plain Parquet with a dataset card, for trainers and the datasets library
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap export out/pruned --to pruned-dataset
  python -c 'import datasets; print(datasets.load_dataset(\"pruned-dataset\"))'")]
pub struct ExportArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Write to this folder, which must be new or empty
    #[arg(long, value_name = "DIR")]
    to: String,
}

pub async fn export(ExportArgs { place, to }: ExportArgs) -> Result<(), Failure> {
    let done = outputs::export::export(&place.location, &to).await?;
    if !done.finished {
        complain("note: the output is not finished: asap status shows which rows are missing");
    }
    Ok(print_as(place.format, &done, || tables::exported(&done))?)
}
