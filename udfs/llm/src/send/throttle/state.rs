//! Decides when the next call may start. Time and random numbers are passed in.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Limits;
use super::calls::{CallState, Calls};
use super::pace::Pace;
use crate::send::health::CALLS;
use crate::send::retry;

/// Calls in flight before the first answer: few, because all of them fail if the key or the address is wrong.
const FIRST_WINDOW: u32 = 8;
/// Number of calls in a row, in the order of starts, after which all stop if none of them was accepted, ...
const STOPPED_AFTER: usize = 10;
/// ... and how many more if all are limited at random. If three of ten are, ten in a row are one in 170,000, and
/// sixteen one in 200 million.
const MORE_AT_RANDOM: f64 = 20.0;
/// The longest pause for failures alone: after a few of them the endpoint is down.
const LONGEST_FOR_FAILURES: Duration = Duration::from_secs(5);
/// Number of stops in a row after which a warning is logged.
const STUCK: u32 = 3;
/// A call in flight for this long after a stop counts as accepted: limits arrive sooner.
const TAKEN: Duration = Duration::from_secs(1);
/// Shorter pauses are not logged: a reader would take each for a problem.
const ANNOUNCED: Duration = Duration::from_secs(30);
/// A pause that ends at least this much later than the announced one is a new one.
const ANOTHER: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct ThrottleState {
    /// Each call that waits for its start holds a clone.
    pub waiting: Arc<()>,
    pub in_flight: u32,
    /// Of these, the calls that started after the last stop, ...
    fresh: u32,
    /// ... and how many more than the first window may be in flight.
    grown: u32,
    at_once: u32,
    calls: Calls,
    pub pace: Pace,
    /// The earliest next start by the endpoint's pace, and by the settings' requests and tokens per minute.
    pub next: [Option<Instant>; 3],
    pub paused_until: Option<Instant>,
    announced_until: [Option<Instant>; 2],
    fresh_from: u64,
    stopped_at: Option<Instant>,
    tried_at: Option<Instant>,
    pub stops: u32,
    answered: u64,
    is_reported: bool,
}

impl ThrottleState {
    /// Starts a call, or returns when to try again: at a time, or (None) when a call has ended.
    pub(super) fn begin(&mut self, limits: Limits, tokens: u64, now: Instant) -> Result<u64, Option<Instant>> {
        self.at_once = limits.at_once;
        let window = match self.tried_at {
            Some(tried_at) if self.fresh > 0 && self.stops > 0 => {
                if now < tried_at + TAKEN {
                    return Err(Some(tried_at + TAKEN));
                }
                self.take_up();
                FIRST_WINDOW + self.grown
            }
            // One call shows whether the endpoint accepts calls again. More would only be limited with it.
            _ if self.stops > 0 => 1,
            _ => FIRST_WINDOW + self.grown,
        };
        if self.in_flight >= limits.at_once || self.fresh >= window {
            return Err(None);
        }
        // The next start by a limit that no longer exists does not count.
        let own = [
            self.pace.step().map(|_| ()),
            limits.requests_per_minute.map(|_| ()),
            limits.tokens_per_minute.map(|_| ()),
        ];
        let of_paces = self.next.iter().zip(own).filter(|(_, own)| own.is_some()).map(|(next, _)| *next);
        if let Some(at) = of_paces.chain([self.paused_until]).flatten().max().filter(|at| *at > now) {
            return Err(Some(at));
        }
        if let Some(at) = self.stopped_at.take().filter(|_| self.stops == 1) {
            // The outcomes of the calls in flight at the stop are known now.
            self.pace.slow_down(at);
        }
        let number = self.calls.start(limits.at_once);
        self.pace.start(number, now);
        self.tried_at = Some(now);
        (self.in_flight, self.fresh) = (self.in_flight + 1, self.fresh + 1);
        let step = [
            self.pace.step(),
            limits.requests_per_minute.map(|per_minute| time(1, per_minute)),
            limits.tokens_per_minute.map(|per_minute| time(tokens, per_minute)),
        ];
        for (next, step) in self.next.iter_mut().zip(step) {
            *next = step.map(|step| next.map_or(now, |next| next.max(now)) + step).or(*next);
        }
        Ok(number)
    }

    /// Ends a call in flight. Without another outcome it counts as accepted.
    pub(super) fn end(&mut self, number: u64, now: Instant) {
        self.calls.end(number, CallState::Accepted);
        self.in_flight -= 1;
        if number >= self.fresh_from {
            self.fresh -= 1;
        }
        self.judge(now);
    }

    pub(super) fn answered(&mut self, number: u64) {
        self.calls.end(number, CallState::Accepted);
        self.answered += 1;
        // The window grows by one with each answer, and so doubles per round trip. A call from before the stop does not show that the endpoint accepts calls again.
        if number >= self.fresh_from {
            self.take_up();
            self.grown = (self.grown + 1).min(self.at_once.saturating_sub(FIRST_WINDOW));
        }
    }

    pub(crate) fn limited(&mut self, number: u64, after: Duration, jitter: f64, now: Instant) -> Limited {
        self.calls.end(number, CallState::Limited);
        self.pace.limit(number);
        if self.is_in_vain(number) {
            self.stop(after + retry::pause(self.pauses(), jitter), now);
            self.stopped_at.get_or_insert(now);
        } else if number < self.fresh_from && self.stops > 0 {
            self.paused_until = self.paused_until.max(Some(now + after));
        }
        let others = self.in_flight > 1;
        Limited {
            stops: if others { 0 } else { self.stops },
            is_alone: !others && Arc::strong_count(&self.waiting) == 1,
            answered: self.answered,
        }
    }

    /// Records that a call failed. If `pauses`, all calls stop when none is accepted. Returns whether the endpoint is
    /// down.
    pub(super) fn failed(&mut self, number: u64, pauses: bool, jitter: f64, now: Instant) -> bool {
        // A failure of a call from before the stop is the same event.
        let is_fresh = number >= self.fresh_from;
        self.calls.end(number, if is_fresh { CallState::Failed } else { CallState::Limited });
        if self.calls.in_vain(number).1 >= CALLS {
            self.calls.forget_rows();
            return true;
        }
        if pauses && self.is_in_vain(number) {
            self.stop(retry::pause(self.pauses(), jitter).min(LONGEST_FOR_FAILURES), now);
        }
        false
    }

    fn take_up(&mut self) {
        (self.stops, self.is_reported) = (0, false);
    }

    /// Returns whether too many calls in a row around this one were not accepted, so that all must stop.
    fn is_in_vain(&self, number: u64) -> bool {
        let row = STOPPED_AFTER + (MORE_AT_RANDOM * self.pace.noise()) as usize;
        number >= self.fresh_from && (self.stops > 0 || self.calls.in_vain(number).0 >= row)
    }

    /// The first stop may be chance and is short; pauses double from the second one.
    fn pauses(&self) -> u32 {
        if self.stops == 0 { 0 } else { self.stops + 1 }
    }

    fn stop(&mut self, pause: Duration, now: Instant) {
        self.stops += 1;
        // Calls from before the stop neither take up the window after it nor judge it.
        (self.fresh, self.fresh_from) = (0, self.calls.next());
        self.paused_until = self.paused_until.max(Some(now + pause));
        self.pace.stop();
    }

    fn judge(&mut self, now: Instant) {
        while let Some((number, known)) = self.calls.next_known(self.at_once) {
            if number >= self.fresh_from && known != CallState::Failed {
                let next = self.calls.next();
                self.pace.judge(number, known == CallState::Limited, self.in_flight, next, now);
            }
        }
    }

    /// Returns whether calls were stopped so often that it should be reported. True once, until a call is accepted.
    pub(crate) fn is_stuck_anew(&mut self) -> bool {
        let is_anew = self.stops >= STUCK && !self.is_reported;
        self.is_reported |= is_anew;
        is_anew
    }

    /// Returns a pause that should be announced and was not: of all calls, or of one that waits for `own`.
    pub(crate) fn unannounced(&mut self, own: Duration, now: Instant) -> Option<Pause> {
        let [of_all, of_one] = self.announced_until;
        let all = self.paused_until.filter(|until| *until > now + ANNOUNCED);
        let all = all.filter(|until| of_all.is_none_or(|announced| *until > announced + ANOTHER));
        let one =
            Some(now + own).filter(|until| *until > now + ANNOUNCED && of_all.max(of_one).is_none_or(|at| at <= now));
        let until = all.or(one)?;
        self.announced_until[usize::from(all.is_none())] = Some(until);
        Some(Pause { time: until - now, is_for_all: all.is_some() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limited {
    /// Number of stops since a call was accepted; 0 while others are in flight, which may still be accepted.
    pub stops: u32,
    pub is_alone: bool,
    /// Number of calls that the endpoint has answered.
    pub answered: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    pub time: Duration,
    pub is_for_all: bool,
}

pub(super) fn time(amount: u64, per_minute: u32) -> Duration {
    Duration::from_secs_f64((amount as f64 * 60.0 / f64::from(per_minute)).min(86_400.0))
}
