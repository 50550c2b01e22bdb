//! The scheduler: starts due jobs, reports how they ended, and ends on a signal.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use nix::sys::signal::Signal;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::child;
use super::jobs::Job;
use super::plan::{Cause, Decision, Progress, TRY_LATER};
use super::state::ScheduleState;
use crate::failure::Failure;
use crate::output::{complain, print, several};
use crate::signals::Signals;

/// The longest sleep. A sleep does not notice a changed clock or a sleep of the machine, so this is the longest delay.
const LOOK: Duration = Duration::from_secs(30);

pub(crate) struct Service {
    jobs: Vec<(Arc<Job>, Progress)>,
    state: ScheduleState,
    runs: JoinSet<Ended>,
    /// The signal for the running jobs.
    signal: watch::Sender<Option<Signal>>,
}

struct Ended {
    index: usize,
    started: DateTime<Utc>,
    result: std::io::Result<(i32, Option<Value>)>,
}

#[derive(Serialize)]
struct Report<'a> {
    job: &'a str,
    started: String,
    ended: String,
    code: i32,
    summary: Option<Value>,
}

impl Service {
    /// A scheduler that starts `asap run` for each job. A job without state begins with its next time.
    pub(crate) fn new(jobs: Vec<Job>, mut state: ScheduleState) -> Result<Self, Failure> {
        let now = Utc::now();
        let last = |job: &Job| state.of(&job.name).unwrap_or(now);
        let known: Vec<_> = jobs.into_iter().map(|job| (last(&job), job)).collect();
        state.keep(known.iter().map(|(last, job)| (job.name.clone(), *last)).collect())?;
        let jobs = known.into_iter().map(|(last, job)| (Arc::new(job), Progress::new(last))).collect();
        Ok(Self { jobs, state, runs: JoinSet::new(), signal: watch::Sender::new(None) })
    }

    /// Runs jobs until SIGTERM or SIGINT. Running jobs then get SIGTERM; a second signal kills them.
    pub(crate) async fn run(mut self, mut signals: Signals) -> Result<(), Failure> {
        for (job, progress) in &self.jobs {
            complain(&format!("{}: {}", job.name, outlook(job, progress)));
        }
        let mut result = self.serve(&mut signals).await;
        self.signal.send_replace(Some(Signal::SIGTERM));
        if !self.runs.is_empty() {
            let jobs = several(self.runs.len() as u64, "running job");
            complain(&format!("waiting for {jobs}; a second signal kills them"));
        }
        while !self.runs.is_empty() {
            tokio::select! {
                // A failure is reported after the last run has ended.
                Some(ended) = self.runs.join_next() => result = result.and(self.report(ended)),
                _ = signals.next() => drop(self.signal.send_replace(Some(Signal::SIGKILL))),
            }
        }
        result
    }

    async fn serve(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        loop {
            let sleep = self.start_due(Utc::now())?;
            tokio::select! {
                Some(ended) = self.runs.join_next() => self.report(ended)?,
                () = tokio::time::sleep(sleep) => {}
                _ = signals.next() => return Ok(()),
            }
        }
    }

    fn start_due(&mut self, now: DateTime<Utc>) -> Result<Duration, Failure> {
        let mut sleep = LOOK;
        for (index, (job, progress)) in self.jobs.iter_mut().enumerate() {
            progress.distrust(now);
            match progress.decide(&job.times, now) {
                Decision::Start(cause) => {
                    progress.start(cause, now);
                    self.state.remember(&job.name, progress.remembered())?;
                    complain(&format!("{}: {}", job.name, reason(job, cause)));
                    let (job, signals) = (Arc::clone(job), self.signal.subscribe());
                    self.runs.spawn(async move {
                        let result = child::run(&job, signals).await;
                        Ended { index, started: now, result }
                    });
                }
                Decision::Wait(Some(time)) => sleep = sleep.min((time - now).to_std().unwrap_or_default()),
                Decision::Wait(None) | Decision::Running => {}
            }
        }
        Ok(sleep)
    }

    fn report(&mut self, run: Result<Ended, JoinError>) -> Result<(), Failure> {
        let run = run.map_err(|error| Failure::Failed(format!("a run was lost: {error}")))?;
        let ended = Utc::now();
        let (job, progress) = &mut self.jobs[run.index];
        let (code, summary) = run.result.unwrap_or_else(|error| {
            complain(&format!("{}: cannot run asap: {error}", job.name));
            (1, None)
        });
        progress.end(code, ended);
        self.state.remember(&job.name, progress.remembered())?;
        let time = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let report = Report { job: &job.name, started: time(run.started), ended: time(ended), code, summary };
        print(&serde_json::to_string(&report)?)?;
        let how = match code {
            0 => "done".to_string(),
            TRY_LATER => "asks to be retried later".to_string(),
            code => format!("ended with code {code}"),
        };
        complain(&format!("{}: {how}; {}", job.name, outlook(job, progress)));
        Ok(())
    }
}

fn reason(job: &Job, cause: Cause) -> String {
    match cause {
        Cause::Due(time) => format!("starts, due at {}", local(job, time)),
        Cause::Again => "starts again".to_string(),
    }
}

fn outlook(job: &Job, progress: &Progress) -> String {
    match progress.decide(&job.times, Utc::now()) {
        Decision::Wait(Some(time)) => format!("next at {}", local(job, time)),
        Decision::Wait(None) => "never again".to_string(),
        Decision::Start(_) | Decision::Running => "next now".to_string(),
    }
}

fn local(job: &Job, time: DateTime<Utc>) -> String {
    time.with_timezone(&job.times.zone()).to_rfc3339_opts(SecondsFormat::Secs, false)
}
