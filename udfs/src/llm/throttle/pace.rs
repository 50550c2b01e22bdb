//! The pace that an endpoint bears.
//!
//! Two kinds of limits look alike. A limit of the account is met by calls that start too fast: slower calls meet none. An
//! endpoint whose capacity is shared, or of which one replica is ill, limits a share of the calls at random: slower calls
//! meet as many. To slow down is right for the first kind and endless for the second.
//!
//! So there is no pace at first, and limits are only counted, in the order in which calls started. Where there is a pace, each
//! call that is taken raises it and each that is limited lowers it; the steps are such that it rests where one in ten is
//! limited. If more are limited than that, for so long that it is not chance (the CUSUM test of Page, 1954), a trial
//! follows, as in PCC (Dong and others, NSDI 2015): some calls start at half the pace at which the endpoint took calls. If
//! that lowers the share of limited calls by much, calls were too fast, and the pace is set a little below what the
//! endpoint took. If not, this share has nothing to do with the pace: calls go on as before the trial, and from then on
//! only what is limited beyond this share counts.

use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

/// What a call that is taken adds to the logarithm of the pace, ...
const UP: f64 = 0.01;
/// ... and what a limited one takes from it, beyond the share that has nothing to do with it.
const DOWN: f64 = 0.09;
/// So many calls in flight or a second take full steps; where there are more, a second or a round trip changes the pace by no
/// more.
const FULL_STEPS: f64 = 5.0;
const BELOW: f64 = 0.9;
/// How far the sum of steps falls before a trial, for few calls.
const FALL: f64 = std::f64::consts::LN_2 * 2.0;
const TRIAL: u32 = 50;
/// Endpoints count by the second or longer, so calls of less than a second tell no pace.
const SHORTEST_SPAN: Duration = Duration::from_secs(1);
/// What is left of a pace in the next span: where few calls are made, it is not the endpoint that is slow.
const FADED: f64 = 0.95;
/// The part of the share that a trial leaves at most where the pace is the reason, ...
const HELPED: f64 = 0.4;
const UNCLEAR: Range<f64> = 0.2..0.65;
const MOST_NOISE: f64 = 0.5;
const SMOOTHED: f64 = 200.0;

/// How fast calls may start, by what the endpoint made of those before.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    pace: Option<f64>,
    /// The calls of this span, and the starts a second and calls taken a second of those before.
    span: Option<Span>,
    last: (f64, f64),
    /// The share of limited calls that has nothing to do with the pace, and the most that a trial left it at.
    noise: f64,
    most_noise: f64,
    /// How much the sum of steps is below its highest point, and the calls and the pace since then.
    fall: f64,
    fallen: Share,
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

    /// A call was limited; what that means is judged in the order of starts.
    pub(crate) fn limit(&mut self, number: u64) {
        if let Some(span) = self.span.as_mut().filter(|span| number >= span.first) {
            span.limited += 1;
        }
    }

    pub(crate) fn stop(&mut self) {
        self.trial = None;
        self.begin_anew();
    }

    /// The endpoint takes calls again, which limited so many in a row at this time that all were stopped.
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
        // By chance the sum falls the further the more calls there are.
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

    /// Starts a second, and calls taken a second, in the best of the last spans.
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
