//! Decides whether a job starts, from its progress and the time. No clock is read here.
//!
//! A job is due if one of its times has passed since it last started. It is due once, even for several times: this is
//! the catch-up after downtime, after a sleep of the machine, and after a run longer than its period.

use chrono::{DateTime, TimeDelta, Utc};

use super::times::Times;

/// The exit code of a run that asks to be retried later.
pub const TRY_LATER: i32 = 75;

/// The first pause before a retry; each further pause is twice as long.
pub const PAUSE: TimeDelta = TimeDelta::minutes(1);
const LONGEST_PAUSE: TimeDelta = TimeDelta::minutes(30);
/// A start further in the future than this was read from a wrong clock.
const CLOCK_ERROR: TimeDelta = TimeDelta::hours(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    since: DateTime<Utc>,
    before: DateTime<Utc>,
    pub is_running: bool,
    again: Option<Again>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Again {
    at: DateTime<Utc>,
    next_pause: TimeDelta,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// One of its scheduled times was reached.
    Due(DateTime<Utc>),
    /// Its last run asked to be retried later.
    Again,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Start(Cause),
    /// Wait until this time; forever if there is none.
    Wait(Option<DateTime<Utc>>),
    Running,
}

impl Progress {
    /// A job that last started at `since`, or was first seen then and never started.
    pub fn new(since: DateTime<Utc>) -> Self {
        Self { since, before: since, is_running: false, again: None }
    }

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

    pub fn start(&mut self, cause: Cause, now: DateTime<Utc>) {
        if matches!(cause, Cause::Due(_)) {
            self.before = self.since;
            self.again = None;
        }
        self.since = self.since.max(now);
        self.is_running = true;
    }

    /// The argument of [`Progress::new`] after a restart: the last start or, for a run to retry, a time since which the
    /// job is due.
    pub fn remembered(&self) -> DateTime<Utc> {
        match self.again {
            Some(_) if !self.is_running => self.before,
            _ => self.since,
        }
    }

    pub fn end(&mut self, code: i32, now: DateTime<Utc>) {
        self.is_running = false;
        if code != TRY_LATER {
            self.again = None;
            return;
        }
        let pause = self.again.as_ref().map_or(PAUSE, |again| again.next_pause);
        self.again = Some(Again { at: now + pause, next_pause: (pause * 2).min(LONGEST_PAUSE) });
        // Times that passed during the run are left to the retry: the run asked not to start again immediately.
        self.since = self.since.max(now);
    }

    /// Forgets times so far after `now` that they come from a wrong clock: otherwise the job would wait for them.
    pub fn distrust(&mut self, now: DateTime<Utc>) {
        self.since = self.since.min(now + CLOCK_ERROR);
        if let Some(again) = &mut self.again {
            again.at = again.at.min(now + LONGEST_PAUSE);
        }
    }
}
