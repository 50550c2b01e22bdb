//! `asap schedule`: runs jobs by cron expressions, each in its own process.

mod flags;
mod outputs;

use std::path::{Path, PathBuf};

use asap_schedule::check;
use asap_schedule::jobs::{self, Job};
use clap::Args;

use crate::failure::Failure;
use crate::output::{SummaryFormat, note, print_as};
use crate::run;
use flags::Flags;

/// Run pipelines on cron schedules: each job is a separate `asap run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  asap schedule jobs.toml --check
  asap schedule jobs.toml >> runs.jsonl

A jobs file has a table for each job. Its keys are cron, timezone and the flags of asap run:
  [jobs.night]
  cron = \"0 2 * * *\"           # minute, hour, day, month, weekday; six fields begin with seconds
  timezone = \"Europe/Berlin\"   # default: UTC
  pipeline = \"asap\"
  from = \"s3://lake/traces/\"
  to = \"s3://lake/pruned/\"
  limit = 5000
  [jobs.night.set]
  \"refine.max_tokens\" = 2048

Paths are relative to the folder in which you start the scheduler. A job never runs twice at the same time. One run
makes up for all times that passed while the job ran, or while no scheduler ran. A new job first runs at its next time.

If a run ends with exit code 75, the scheduler retries the job after 1 minute. The pause doubles up to 30 minutes, and
retries end at the job's next time. After any other code, the job waits for its next time.

When clocks change, a job whose hour field is * keeps its interval. Any other job runs once if its time occurs twice,
and at the end of the gap if its time is skipped.

For each finished run, the scheduler prints a line of JSON: job, started, ended, code, summary. After SIGTERM or SIGINT,
running jobs end gracefully. A second signal kills the running jobs.")]
pub struct ScheduleArgs {
    /// The jobs file
    #[arg(value_name = "JOBS.TOML")]
    jobs: PathBuf,
    /// Report the errors of the jobs file and of each run before its first row, and run nothing. Without errors, report
    /// when each job runs next
    #[arg(long)]
    check: bool,
    /// Set the output format of --check; json prints a single line
    #[arg(long, value_enum, default_value_t = SummaryFormat::Table, requires = "check")]
    format: SummaryFormat,
}

pub async fn run(args: ScheduleArgs) -> Result<(), Failure> {
    let flags = Flags::of_run();
    let jobs = jobs::read(&args.jobs, &|job, other_keys| flags.arguments(job, other_keys))?;
    outputs::check(&flags, &jobs)
        .map_err(|fault| Failure::Usage(format!("the jobs file {} is wrong:\n{fault}", args.jobs.display())))?;
    if args.check {
        check_runs(&jobs, &args.jobs).await?;
        let outlook = check::outlook(&jobs, chrono::Utc::now());
        return Ok(print_as(args.format, &outlook, || check::table(&outlook))?);
    }
    asap_schedule::run(jobs, &args.jobs).await
}

/// Checks the run of each job, as far as that needs nothing outside this machine.
async fn check_runs(jobs: &[Job], file: &Path) -> Result<(), Failure> {
    let mut faults = Vec::new();
    for Job { name, arguments, .. } in jobs {
        match run::check(arguments.clone()).await {
            Ok(notes) => notes.iter().for_each(|text| note(format!("jobs.{name}: {text}"))),
            Err(failure) => faults.push(format!("jobs.{name}: {}", failure.message())),
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::Usage(format!("the jobs file {} is wrong:\n{}", file.display(), faults.join("\n")))),
    }
}
