//! Runs jobs by cron expressions, each in its own process: `asap schedule`.

pub mod check;
mod child;
pub mod jobs;
pub mod plan;
mod service;
mod state;
pub mod times;

use std::path::Path;

pub(crate) use asap_console::{failure, output, program, signals};

use crate::failure::Failure;
use crate::signals::Signals;
use jobs::Job;
use service::Service;
use state::ScheduleState;

/// Runs the jobs of a file until SIGTERM or SIGINT.
///
/// # Errors
/// If another scheduler runs these jobs, or the state of the scheduler cannot be read or written.
pub async fn run(jobs: Vec<Job>, file: &Path) -> Result<(), Failure> {
    // Other programs may send a signal as soon as the state is there.
    let signals = Signals::new()?;
    let state = ScheduleState::open(&state::folder()?, file)?;
    Service::new(jobs, state)?.run(signals).await
}
