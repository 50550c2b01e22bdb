//! The pace that an endpoint sustains.
//!
//! Two kinds of limits look alike. A limit of the account applies to calls that start too fast: slower calls do not
//! reach it. An endpoint with shared capacity, or with one faulty replica, limits a share of the calls at random:
//! slower calls are limited as often. To slow down is right for the first kind and useless for the second.
//!
//! So there is no pace at first. Limits are only counted, in the order in which calls started. With a pace, each
//! accepted call raises it and each limited call lowers it; the step sizes balance if one call in ten is limited. If
//! more calls are limited for too long to be chance (the CUSUM test of Page, 1954), a trial follows, as in PCC (Dong et
//! al., NSDI 2015). In a trial some calls start at half the pace at which the endpoint accepted calls. If that lowers
//! the share of limited calls by much, calls were too fast, and the pace is set a little below the accepted rate. If
//! not, this share does not depend on the pace. Calls then continue as before the trial, and from then on only limits
//! beyond this share count.

use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

/// The amount that an accepted call adds to the logarithm of the pace, ...
const UP: f64 = 0.01;
/// ... and the amount that a limited one subtracts: nine times as much, so that the pace is steady if one call in ten is
/// limited. The share of calls that is limited at any pace does not count.
const DOWN: f64 = 0.09;
/// The calls of one second, or of one round trip, together change the pace by at most this many full steps: with more
/// calls, each step is smaller.
const FULL_STEPS: f64 = 5.0;
/// Set a little below a measured rate: at the rate itself, calls would be limited again at once.
const BELOW: f64 = 0.9;
/// A trial starts when the sum of steps is this far below its maximum (for few calls).
const FALL: f64 = std::f64::consts::LN_2 * 2.0;
/// Calls of a trial before its result is read. Their share of limited calls then has a standard error of at most 7 %.
const TRIAL: u32 = 50;
/// Endpoints limit the calls of a second or more, so a shorter span does not show which pace they allow.
const SHORTEST_SPAN: Duration = Duration::from_secs(1);
/// The factor by which the measured rates decay per span. A low rate may be due to few calls.
const FADED: f64 = 0.95;
/// A trial helped if it lowers the share of limited calls to at most this factor.
const HELPED: f64 = 0.4;
/// Results this close to `HELPED` may be chance, so the trial continues for up to three times as many calls.
const UNCLEAR: Range<f64> = 0.2..0.65;
/// The largest share of calls that may count as limited at any pace. An endpoint that limits more has to be paced.
const MOST_NOISE: f64 = 0.5;
/// Calls over which the share of limited calls is averaged: many, because it changes when replicas do, not with a call.
const SMOOTHED: f64 = 200.0;

/// The rate at which calls may start, by the outcomes of earlier calls.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    pace: Option<f64>,
    span: Option<Span>,
    /// Of earlier spans: the calls started per second, and the calls accepted per second. They fade, because an idle time
    /// does not show that the endpoint accepts less.
    last: (f64, f64),
    /// The share of calls that is limited at any pace, ...
    noise: f64,
    /// ... and its upper bound, which the last trial found.
    most_noise: f64,
    /// How far the sum of steps is below its maximum.
    fall: f64,
    /// The calls since that maximum.
    fallen: Share,
    /// The pace at that maximum.
    before: Option<f64>,
    trial: Option<Trial>,
    #[cfg(test)]
    pub trials: u32,
}

#[derive(Debug)]
struct Span {
    since: Instant,
    first: u64,
    started: u32,
    limited: u32,
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    all: u32,
    limited: u32,
}

#[derive(Debug)]
struct Trial {
    first: u64,
    until: Instant,
    found: Share,
    rate: f64,
}

impl Pace {
    pub(crate) fn step(&self) -> Option<Duration> {
        self.pace.map(|pace| Duration::from_secs_f64((1.0 / pace).min(86_400.0)))
    }

    pub(crate) fn noise(&self) -> f64 {
        self.noise
    }

    pub(crate) fn start(&mut self, number: u64, now: Instant) {
        if let Some(span) = self.span.take_if(|span| now.duration_since(span.since) >= SHORTEST_SPAN) {
            let (started, taken) = span.rates(now);
            self.last = (started.max(self.last.0 * FADED), taken.max(self.last.1 * FADED));
        }
        self.span.get_or_insert(Span { since: now, first: number, started: 0, limited: 0 }).started += 1;
    }

    /// Records that a call was limited. [`Pace::judge`] judges it in the order of starts.
    pub(crate) fn limit(&mut self, number: u64) {
        if let Some(span) = self.span.as_mut().filter(|span| number >= span.first) {
            span.limited += 1;
        }
    }

    pub(crate) fn stop(&mut self) {
        self.trial = None;
        self.begin_anew();
    }

    /// Lowers the pace when the endpoint accepts calls again after it limited so many that all stopped at this time.
    pub(crate) fn slow_down(&mut self, stopped_at: Instant) {
        let taken = self.rates(stopped_at).1;
        if taken > 0.0 {
            self.pace = Some(self.pace.unwrap_or(f64::INFINITY).min(taken) * BELOW);
            (self.span, self.last) = (None, (0.0, 0.0));
        }
    }

    /// Judges a call, in the order of starts, while `in_flight` run and the next one is `next`.
    pub(crate) fn judge(&mut self, number: u64, is_limited: bool, in_flight: u32, next: u64, now: Instant) {
        let limited = f64::from(u8::from(is_limited));
        self.noise = (self.noise + (limited - self.noise) / SMOOTHED).min(self.most_noise);
        if let Some(trial) = &mut self.trial {
            if number >= trial.first {
                trial.found.add(is_limited);
            }
            let (all, left) = (trial.found.all, trial.found.share() / self.fallen.share());
            if all >= TRIAL && now >= trial.until && (!UNCLEAR.contains(&left) || all >= 3 * TRIAL) {
                self.end_trial();
            }
            return;
        }
        let step = UP * (1.0 - limited) - DOWN * (limited - self.noise);
        let rate = self.pace.unwrap_or(f64::INFINITY).min(self.rates(now).0);
        let many = (rate.max(f64::from(in_flight)) / FULL_STEPS).max(1.0);
        if self.fall <= step {
            self.begin_anew();
        } else {
            self.fall -= step;
            self.fallen.add(is_limited);
        }
        self.pace = self.pace.map(|pace| pace * (step / many).exp());
        // With more calls, the sum falls further by chance.
        if self.fall >= FALL * many.cbrt() {
            self.try_half(rate * (1.0 - self.fallen.share()), next, now);
        }
    }

    fn try_half(&mut self, rate: f64, next: u64, now: Instant) {
        if rate > 0.0 {
            self.trial = Some(Trial { first: next, until: now + SHORTEST_SPAN, found: Share::default(), rate });
            self.pace = Some(rate / 2.0);
            #[cfg(test)]
            (self.trials += 1);
        }
    }

    fn end_trial(&mut self) {
        let Some(Trial { found, rate, .. }) = self.trial.take() else { return };
        if found.share() <= self.fallen.share() * HELPED {
            (self.most_noise, self.pace) = (found.share(), Some(rate * BELOW));
        } else {
            let both = Share { all: found.all + self.fallen.all, limited: found.limited + self.fallen.limited };
            (self.most_noise, self.pace) = (both.share().min(MOST_NOISE), self.before);
        }
        self.noise = self.most_noise;
        (self.span, self.last) = (None, (0.0, 0.0));
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        (self.fall, self.fallen, self.before) = (0.0, Share::default(), self.pace);
    }

    /// Returns the started and the accepted calls per second, each the higher of this span and of earlier ones.
    fn rates(&self, now: Instant) -> (f64, f64) {
        let (started, taken) = self.span.as_ref().map_or((0.0, 0.0), |span| span.rates(now));
        (started.max(self.last.0), taken.max(self.last.1))
    }
}

impl Span {
    fn rates(&self, until: Instant) -> (f64, f64) {
        let seconds = until.duration_since(self.since).max(SHORTEST_SPAN).as_secs_f64();
        let taken = self.started.saturating_sub(self.limited);
        (f64::from(self.started) / seconds, f64::from(taken) / seconds)
    }
}

impl Share {
    fn add(&mut self, is_limited: bool) {
        self.all += 1;
        self.limited += u32::from(is_limited);
    }

    fn share(self) -> f64 {
        f64::from(self.limited) / f64::from(self.all.max(1))
    }
}
