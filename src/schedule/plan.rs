//! Whether a job is to start, given what became of it so far and the time. No clock is read here.
//!
//! A job is due if one of its times has come since it last started. However many came, it is due once: that is the
//! catch-up after downtime, after a sleep of the machine and after a run that took longer than its period.

use chrono::{DateTime, TimeDelta, Utc};

use super::times::Times;

/// The exit code of a run that asks to be tried later.
pub const TRY_LATER: i32 = 75;

/// The first pause before a run is tried again; each further one is twice as long.
pub const PAUSE: TimeDelta = TimeDelta::minutes(1);
const LONGEST_PAUSE: TimeDelta = TimeDelta::minutes(30);
/// How far a start may lie in the future before the clock that it was read from is taken to have been wrong.
const CLOCK_ERROR: TimeDelta = TimeDelta::hours(1);

/// What became of a job so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    since: DateTime<Utc>,
    before: DateTime<Utc>,
    /// Whether its run has begun and not ended.
    pub is_running: bool,
    again: Option<Again>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Again {
    at: DateTime<Utc>,
    next_pause: TimeDelta,
}

/// Why a job starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// This time of its came.
    Due(DateTime<Utc>),
    /// Its last run asked to be tried later.
    Again,
}

/// What is to be done about a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Start it.
    Start(Cause),
    /// Nothing before this time; at no time if there is none.
    Wait(Option<DateTime<Utc>>),
    /// Nothing before it has ended.
    Running,
}

impl Progress {
    /// A job that last started at `since`, or is known since then and never started.
    pub fn new(since: DateTime<Utc>) -> Self {
        Self { since, before: since, is_running: false, again: None }
    }

    /// What is to be done at `now`.
    pub fn decide(&self, times: &Times, now: DateTime<Utc>) -> Decision {
        if self.is_running {
            return Decision::Running;
        }
        let again = self.again.as_ref().map(|again| again.at);
        match (times.next_after(self.since), again) {
            (Some(due), _) if due <= now => Decision::Start(Cause::Due(due)),
            (_, Some(at)) if at <= now => Decision::Start(Cause::Again),
            (due, at) => Decision::Wait(due.into_iter().chain(at).min()),
        }
    }

    /// The job started at `now` for this cause.
    pub fn start(&mut self, cause: Cause, now: DateTime<Utc>) {
        if matches!(cause, Cause::Due(_)) {
            self.before = self.since;
            self.again = None;
        }
        self.since = self.since.max(now);
        self.is_running = true;
    }

    /// What [`Progress::new`] takes after a restart: when the job last started or, if that run is to be tried again, a
    /// time since which it is due.
    pub fn remembered(&self) -> DateTime<Utc> {
        match self.again {
            Some(_) if !self.is_running => self.before,
            _ => self.since,
        }
    }

    /// The job's run ended at `now` with this exit code.
    pub fn end(&mut self, code: i32, now: DateTime<Utc>) {
        self.is_running = false;
        if code != TRY_LATER {
            self.again = None;
            return;
        }
        let pause = self.again.as_ref().map_or(PAUSE, |again| again.next_pause);
        self.again = Some(Again { at: now + pause, next_pause: (pause * 2).min(LONGEST_PAUSE) });
        // What came while it ran is for the next try: to start at once is what it asked not to do.
        self.since = self.since.max(now);
    }

    /// Forgets times that lie so far after `now` that only a clock that was wrong can have shown them: the job would
    /// wait for that time to come back.
    pub fn distrust(&mut self, now: DateTime<Utc>) {
        self.since = self.since.min(now + CLOCK_ERROR);
        if let Some(again) = &mut self.again {
            again.at = again.at.min(now + LONGEST_PAUSE);
        }
    }
}
