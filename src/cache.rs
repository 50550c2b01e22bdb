//! `asap cache`: lists, sums and compacts the paid answers.

use asap_pipelines::answers::{self, Compacted, SegmentState, SegmentSummary, Totals};
use asap_pipelines::location;
use chrono::{TimeDelta, Utc};
use clap::{Args, Subcommand};
use url::Url;

use crate::config::{self, SettingArgs};
use crate::failure::Failure;
use crate::output::{SummaryFormat, count, print_as, table, time_or_dash};

/// List, count and compact the cache of paid answers of language models
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap cache stats out/pruned
  asap cache ls out/pruned --format json
  asap cache gc out/pruned --older-than 90

You can run these commands while other processes use the answers.")]
pub struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// List the segments that store answers, in write order
    Ls(PlaceArgs),
    /// Show the number of answers and bytes
    Stats(PlaceArgs),
    /// Merge small segments into large ones, and remove damaged, repeated and old answers
    Gc {
        #[command(flatten)]
        place: PlaceArgs,
        /// Remove answers older than this many days. If a run needs a removed answer, you pay for the answer again
        #[arg(long, value_name = "DAYS")]
        older_than: Option<u32>,
    },
}

#[derive(Debug, Args)]
struct PlaceArgs {
    /// The output of a run, or a folder of answers [default: asap.cache.dir, else $XDG_CACHE_HOME/asap]
    #[arg(value_name = "LOC")]
    location: Option<String>,
    /// Set the output format; json prints a single line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table)]
    format: SummaryFormat,
    #[command(flatten)]
    settings: SettingArgs,
}

impl PlaceArgs {
    async fn url(&self) -> Result<Url, Failure> {
        let settings = config::load(&self.settings)?;
        Ok(match &self.location {
            Some(location) => answers::find(location).await?,
            None => answers::shared(&settings)?,
        })
    }
}

pub async fn run(args: CacheArgs) -> Result<(), Failure> {
    match args.command {
        CacheCommand::Ls(place) => {
            let segments = answers::survey(&place.url().await?).await?;
            print_as(place.format, &segments, || list(&segments))?;
        }
        CacheCommand::Stats(place) => {
            let url = place.url().await?;
            let totals = Totals::of(&answers::survey(&url).await?);
            print_as(place.format, &totals, || stats(&url, &totals))?;
        }
        CacheCommand::Gc { place, older_than } => {
            let url = place.url().await?;
            let done = answers::compact(&url, older_than.map(days_ago)).await?;
            print_as(place.format, &done, || compacted(&url, &done))?;
        }
    }
    Ok(())
}

fn days_ago(days: u32) -> i64 {
    (Utc::now().timestamp_millis() - TimeDelta::days(days.into()).num_milliseconds()).max(0)
}

fn list(segments: &[SegmentSummary]) -> String {
    let row = |segment: &SegmentSummary| {
        let state = if segment.state == SegmentState::Whole { "whole" } else { "damaged" };
        let (answers, bytes) = (count(segment.answers), count(segment.bytes));
        [segment.segment.clone(), time_or_dash(segment.written), answers, bytes, state.to_string()]
    };
    table(["segment", "written (UTC)", "answers", "bytes", "state"], segments.iter().map(row))
}

fn stats(url: &Url, totals: &Totals) -> String {
    let damaged = if totals.damaged == 0 { String::new() } else { format!(", {} damaged", count(totals.damaged)) };
    let lines = [
        location::display(url),
        format!("answers   {}", count(totals.answers)),
        format!("bytes     {}", count(totals.bytes)),
        format!("segments  {}{damaged}", count(totals.segments)),
        format!("oldest    {}", time_or_dash(totals.oldest)),
        format!("newest    {}", time_or_dash(totals.newest)),
    ];
    lines.join("\n")
}

fn compacted(url: &Url, done: &Compacted) -> String {
    let lines = [
        location::display(url),
        format!("segments  {} -> {}", count(done.segments_before), count(done.segments_after)),
        format!("bytes     {} -> {}", count(done.bytes_before), count(done.bytes_after)),
        format!("answers   {} kept", count(done.answers)),
        format!("removed   {} too old, {} repeated", count(done.answers_too_old), count(done.answers_repeated)),
        format!("damaged   {} segments, whose intact answers are kept", count(done.segments_damaged)),
        format!("killed    {} unfinished files of killed processes removed", count(done.unfinished_removed)),
    ];
    lines.join("\n")
}
