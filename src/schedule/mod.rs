//! `asap schedule`: runs by cron expressions, each a process of its own.

pub mod check;
mod child;
mod flags;
pub mod jobs;
pub mod plan;
mod service;
mod state;
pub mod times;

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output::{SummaryFormat, print_as};
use service::Service;
use state::State;

/// Run pipelines by the clock, as cron does: each job is an `asap run` of its own
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap schedule jobs.toml --check
  asap schedule jobs.toml >> runs.jsonl

A jobs file has a table for each job. Beside cron and timezone its keys are the flags of asap run:
  [jobs.night]
  cron = \"0 2 * * *\"           # minute, hour, day, month, weekday; six fields begin with seconds
  timezone = \"Europe/Berlin\"   # UTC where nothing is said
  pipeline = \"asap\"
  from = \"s3://lake/traces/\"
  to = \"s3://lake/pruned/\"
  limit = 5000
  [jobs.night.set]
  \"refine.max_tokens\" = 2048

Paths are those of the folder that the scheduler is started in. A job never runs beside itself. Times that passed while
it ran, or while no scheduler did, are made up by one run; a new job begins with its next time. A run that ends with
code 75 is tried again after 1, 2, 4 and at last every 30 minutes until its next time comes; after any other end the job
waits for its next time. Where clocks change, named hours come once each, and a job of every hour follows the time that
passes.

Each run that ends is a line of JSON: job, started, ended, code, summary. SIGTERM or SIGINT lets running jobs end in
their own way; a second signal kills them.")]
pub struct ScheduleArgs {
    /// The jobs file
    #[arg(value_name = "JOBS.TOML")]
    jobs: PathBuf,
    /// Say what is wrong with the jobs file, or when each job runs next; nothing is run
    #[arg(long)]
    check: bool,
    /// How that is printed; json is one line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table, requires = "check")]
    format: SummaryFormat,
}

/// Runs the jobs of a file until a signal ends it.
pub async fn run(args: ScheduleArgs) -> Result<(), Failure> {
    let jobs = jobs::read(&args.jobs)?;
    if args.check {
        let outlook = check::outlook(&jobs, chrono::Utc::now());
        return Ok(print_as(args.format, &outlook, || check::table(&outlook))?);
    }
    let state = State::open(&state::folder()?, &args.jobs)?;
    Service::new(std::env::current_exe()?, jobs, state)?.run().await
}
