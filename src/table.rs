//! `asap table`: shows and maintains an output of `asap run`.

use std::num::NonZeroU64;
use std::time::{Duration, SystemTime};

use asap_pipelines::answers::{self, Compacted};
use asap_pipelines::location;
use asap_pipelines::outputs::history::{Commit, history};
use asap_pipelines::outputs::optimize::{Optimized, optimize};
use asap_pipelines::outputs::status::{Status, status};
use asap_pipelines::outputs::vacuum::{Vacuumed, vacuum};
use asap_pipelines::outputs::verify::{Verified, verify};
use asap_pipelines::shards::SHARD_BYTES;
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use url::Url;

use crate::failure::Failure;
use crate::output::{
    SummaryFormat, at_least_one, count, duration, print_as, print_summary, several, table, time, time_or_dash,
};

/// Show and maintain the output of a run: its state, commits, shards and paid answers
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap table status out/pruned
  asap table history out/pruned --limit 10
  asap table vacuum out/pruned --dry-run")]
pub struct TableArgs {
    #[command(subcommand)]
    command: TableCommand,
}

#[derive(Debug, Args)]
struct PlaceArgs {
    /// The output of a run
    #[arg(value_name = "LOC")]
    location: String,
    /// Set the output format; json prints a single line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
}

#[derive(Debug, Subcommand)]
enum TableCommand {
    /// Show what an output holds: rows, rejects, finished files, and whether it is complete
    #[command(after_help = "\
Examples:
  asap table status out/pruned
  asap table status s3://lake/pruned --format json")]
    Status(PlaceArgs),
    /// List the commits of an output, newest first
    #[command(after_help = "\
Examples:
  asap table history out/pruned --limit 10
  asap table history out/pruned --format json")]
    History {
        #[command(flatten)]
        place: PlaceArgs,
        /// List at most N commits
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Check that every shard of an output can be read and that every row occurs once; exit code 1 if not
    #[command(after_help = "\
Examples:
  asap table verify out/pruned
  asap table verify s3://lake/pruned --quick --format json

verify checks the output and its rejects:
- every shard in the logs exists with its size, and all its columns can be read (with --quick, only the column source)
- every row occurs once, and belongs to a finished slice
- each input file has as many rows in the output and in the rejects as the commits of its slices record

verify does not compare values with the input. verify does not find a changed byte that leaves a shard readable, because
the Parquet pages have no checksums.")]
    Verify {
        #[command(flatten)]
        place: PlaceArgs,
        /// Read only the column source of each shard
        #[arg(long)]
        quick: bool,
    },
    Vacuum(VacuumArgs),
    /// Merge small shards of an output into large shards, without changing rows
    #[command(after_help = "\
Examples:
  asap table optimize out/pruned
  asap table optimize out/pruned --target-bytes 536870912

If another run reads this output as its input, that run skips the merged shards. If a row of a merged shard changes
later, that run needs --on-change reprocess, and reads all merged shards again.")]
    Optimize {
        #[command(flatten)]
        place: PlaceArgs,
        /// Merge shards smaller than this size in bytes
        #[arg(long, value_name = "N", default_value_t = SHARD_BYTES, value_parser = at_least_one::<NonZeroU64>)]
        target_bytes: NonZeroU64,
    },
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Remove files that an output no longer uses: replaced shards, and leftovers of killed runs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap table vacuum out/pruned --dry-run
  asap table vacuum out/pruned --retain 30d
  asap table vacuum out/pruned --retain 0s --now
  asap table vacuum out/pruned --answers --retain 90d

After vacuum, you cannot read table versions older than --retain. Without --answers, vacuum keeps paid answers. With
--answers, you can run vacuum while other processes use the answers.")]
struct VacuumArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Keep files that were written or replaced within this time [default: 168h]. Choose a time longer than any run or
    /// reader needs. With --answers, keep answers that were paid within this time [default: all]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    retain: Option<Duration>,
    /// Clean up the paid answers instead of the files: merge small segments into large ones, and remove damaged,
    /// repeated and old answers. LOC may also be an answer cache. If a run needs a removed answer, you pay again
    #[arg(long)]
    answers: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Confirm a --retain of less than a day, which deletes what a run in progress still needs
    #[arg(long)]
    now: bool,
}

pub async fn run(args: TableArgs) -> Result<(), Failure> {
    match args.command {
        TableCommand::Status(place) => {
            let found = status(&place.location).await?;
            print_as(place.format, &found, || status_lines(&found))?;
        }
        TableCommand::History { place, limit } => {
            let found = history(&place.location, limit).await?;
            print_as(place.format, &found, || history_lines(&found))?;
        }
        TableCommand::Verify { place, quick } => {
            let found = verify(&place.location, quick).await?;
            print_as(place.format, &found, || verified(&found))?;
            if !found.faults.is_empty() {
                return Err(Failure::Failed(format!(
                    "{} has faults:\n  {}\nthe same asap run command processes the rows of missing and cut shards again; \
                     delete other shards that cannot be read first",
                    place.location,
                    found.faults.join("\n  ")
                )));
            }
        }
        TableCommand::Vacuum(args) => args.run().await?,
        TableCommand::Optimize { place, target_bytes } => {
            let done = optimize(&place.location, target_bytes).await?;
            print_summary(place.format, &done, || optimized(&done))?;
        }
    }
    Ok(())
}

impl VacuumArgs {
    async fn run(self) -> Result<(), Failure> {
        let Self { place, retain, answers, dry_run, now } = self;
        if retain.is_some_and(|retain| retain < DAY) && !now && !dry_run {
            let what = if answers {
                "answers that a run in progress paid"
            } else {
                "shards that a run in progress has not committed yet"
            };
            let what = format!("--retain of less than a day deletes {what}: add --now if no run is in progress");
            return Err(Failure::Usage(what));
        }
        if !answers {
            let done = vacuum(&place.location, retain.unwrap_or(WEEK), dry_run).await?;
            return Ok(print_summary(place.format, &done, || vacuumed(&done))?);
        }
        let url = answers::find(&place.location).await?;
        let oldest = retain.map(|retain| SystemTime::now().checked_sub(retain).unwrap_or(SystemTime::UNIX_EPOCH));
        let oldest = oldest.map(|oldest| DateTime::<Utc>::from(oldest).timestamp_millis());
        let done = answers::compact(&url, oldest, dry_run).await?;
        Ok(print_summary(place.format, &done, || compacted(&url, &done))?)
    }
}

fn status_lines(found: &Status) -> String {
    let rejects: Vec<_> = found.rejects.iter().map(|(status, rows)| format!("{status} {}", count(*rows))).collect();
    let rejects = if rejects.is_empty() { "none".to_string() } else { rejects.join(", ") };
    let at = found.finished_at.and_then(time).map_or(String::new(), |at| format!(" at {at} UTC"));
    let beyond = count(found.rows_beyond_limit);
    let finished = match found.rows_beyond_limit {
        _ if !found.finished => "no: the last run left rows unprocessed, or did not end".to_string(),
        0 => format!("yes{at}: every row of the input is done"),
        _ => format!("yes{at}, up to --limit: {beyond} rows of the input are beyond it"),
    };
    let (rows_done, files_done) = (several(found.rows_done, "row"), several(found.files_done, "file"));
    let partly = count(found.files_in_part.len() as u64);
    let mut lines = vec![
        format!("{} (table version {}, table generation {})", found.output, found.table_version, found.generation),
        String::new(),
        format!("rows      {} in {}, {} bytes", count(found.rows), several(found.shards, "shard"), count(found.bytes)),
        format!("rejects   {rejects}"),
        format!("input     {rows_done} done, {files_done} done, {partly} partly done"),
    ];
    let in_part = found.files_in_part.iter();
    lines.extend(in_part.map(|part| format!("  {}: {} of {} rows", part.file, count(part.done), count(part.rows))));
    lines.push(format!("finished  {finished}"));
    let answers = &found.answers;
    lines.push(format!("answers   {} paid and kept, {} bytes", count(answers.answers), count(answers.bytes)));
    if !found.endpoint_defaults.is_empty() {
        lines.push(format!("sampling  the endpoint's default {}", found.endpoint_defaults.join(" and ")));
    }
    if let Some(made_by) = &found.made_by {
        lines.push(String::new());
        lines.extend(made_by.lines().iter().map(|(what, who)| format!("{what:<12}{who}")));
        lines.extend(made_by.warning().map(|warning| format!("note: {warning}")));
    }
    lines.push(String::new());
    lines.push("settings that must stay the same for this output (else --new-generation):".to_string());
    lines.extend(found.pipeline.iter().map(|(part, value)| format!("  {part} = {value}")));
    lines.join("\n")
}

fn history_lines(commits: &[Commit]) -> String {
    let row = |commit: &Commit| {
        [
            commit.version.to_string(),
            time_or_dash(commit.time),
            commit.operation.clone(),
            commit.run.clone().unwrap_or("-".to_string()),
            count(commit.slices),
            commit.rows_in.map_or("-".to_string(), count),
            commit.rows_rejected.map_or("-".to_string(), count),
            count(commit.rows_added),
            format!("+{} -{}", commit.shards_added, commit.shards_removed),
            count(commit.bytes_added),
        ]
    };
    let header =
        ["version", "time (UTC)", "operation", "run", "slices", "rows in", "rejected", "rows", "shards", "bytes"];
    table(header, commits.iter().map(row))
}

fn verified(found: &Verified) -> String {
    let mut lines = vec![
        format!("version   {}", found.table_version),
        format!("shards    {} of the output, {} of the rejects", count(found.shards), count(found.shards_of_rejects)),
        format!("rows      {} in the output, {} rejected", count(found.rows), count(found.rejects)),
        format!(
            "filtered  {} rows of finished slices are neither in the output nor in the rejects",
            count(found.filtered)
        ),
        format!("lost      {} rows", count(found.lost)),
        format!("doubled   {} rows", count(found.doubled)),
        format!("strange   {} rows belong to no finished slice", count(found.strange)),
        format!("faults    {}", count(found.faults.len() as u64)),
    ];
    if found.files_not_compared > 0 {
        let files = several(found.files_not_compared, "file");
        lines.push(format!(
            "note: the log no longer has the commits of {files}, so the counts of their rows were not compared"
        ));
    }
    lines.join("\n")
}

fn vacuumed(done: &Vacuumed) -> String {
    let verb = if done.dry_run { "would be removed" } else { "removed" };
    let mut lines: Vec<_> = done.removed.iter().map(|path| format!("  {path}")).collect();
    lines.insert(0, format!("{}, {} bytes {verb}", several(done.objects, "object"), count(done.bytes)));
    if !done.dry_run {
        lines.push(format!("{} removed", several(done.log_entries, "old log file")));
    }
    lines.join("\n")
}

fn optimized(done: &Optimized) -> String {
    if done.shards_before == 0 {
        return format!("nothing to merge in version {}", done.table_version);
    }
    let lines = [
        format!("version   {}", done.table_version),
        format!("shards    {} -> {}", count(done.shards_before), count(done.shards_after)),
        format!("bytes     {} -> {}", count(done.bytes_before), count(done.bytes_after)),
    ];
    lines.join("\n")
}

fn compacted(url: &Url, done: &Compacted) -> String {
    let mut lines = vec![
        location::display(url),
        format!("segments  {} -> {}", count(done.segments_before), count(done.segments_after)),
        format!("bytes     {} -> {}", count(done.bytes_before), count(done.bytes_after)),
        format!("answers   {} kept", count(done.answers)),
        format!("removed   {} too old, {} repeated", count(done.answers_too_old), count(done.answers_repeated)),
        format!("damaged   {} segments, whose intact answers are kept", count(done.segments_damaged)),
        format!("killed    {} unfinished files of killed processes removed", count(done.unfinished_removed)),
    ];
    if done.dry_run {
        lines.push("nothing was changed: this was a dry run".to_string());
    }
    lines.join("\n")
}
