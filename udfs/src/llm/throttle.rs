//! How much an endpoint is asked at once and in a minute: what the settings allow, and less while it says that this is too
//! much.
//!
//! As TCP does it: the number of calls in flight doubles from eight until the endpoint limits one (429, or
//! Retry-After); then it halves, all calls wait for as long as the endpoint asks, and from then on they start at a pace a
//! little below that at which the endpoint took them, which grows with each answer. Calls that were sent before the
//! endpoint limited one and are limited too are the same event.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::retry;

/// Calls in flight at first.
const FIRST_WINDOW: f64 = 8.0;
/// What an answer adds to the calls in flight once the endpoint has limited one.
const WIDENED: f64 = 0.2;
/// The part of the pace at which an endpoint took calls at which they start then, ...
const SLOWED: f64 = 0.9;
/// ... and where it took none.
const STALLED: f64 = 0.5;
/// What an answer adds to the pace.
const QUICKENED: f64 = 1.01;
/// Events without an answer after which it is told that there is none.
const STUCK: u32 = 3;
/// Endpoints count by the second or longer, so calls of less than a second tell no pace.
const SHORTEST_SPAN: Duration = Duration::from_secs(1);

/// What the settings allow.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Calls in flight, in the whole process.
    pub at_once: u32,
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute.
    pub tokens_per_minute: Option<u32>,
}

/// When calls to an endpoint may start, whatever sessions and queries make them.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Calls start in the order in which they asked; who gives up while it waits takes nothing from the others.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    in_flight: u32,
    window: f64,
    /// What the settings allow at once, as they were last seen.
    at_once: u32,
    /// Whether no call was limited yet.
    is_rising: bool,
    /// Starts a second that the endpoint seems to bear.
    pace: Option<f64>,
    /// The next start by that pace, and by the settings' requests and tokens a minute.
    next: [Option<Instant>; 3],
    paused_until: Option<Instant>,
    /// Events of a limit so far.
    events: u64,
    /// When the first call since the last event started, how many started and were not limited, and when one was.
    since: Option<Instant>,
    taken: u32,
    limited_at: Option<Instant>,
    /// Events since the last answer.
    unanswered: u32,
    /// Whether it was told that there is no answer.
    is_told: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            in_flight: 0,
            window: FIRST_WINDOW,
            at_once: 0,
            is_rising: true,
            pace: None,
            next: [None; 3],
            paused_until: None,
            events: 0,
            since: None,
            taken: 0,
            limited_at: None,
            unanswered: 0,
            is_told: false,
        }
    }
}

/// A call in flight.
#[derive(Debug)]
pub struct Admitted {
    throttle: Arc<Throttle>,
    /// The events before it started.
    events: u64,
}

impl Throttle {
    /// Waits until a call of about so many tokens may start. It is in flight until what this returns is dropped.
    pub async fn admit(self: &Arc<Self>, limits: Limits, tokens: u64) -> Admitted {
        let _turn = self.turn.lock().await;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on it hears of every change, also of one before it waits.
            changed.as_mut().enable();
            let begun = self.state().begin(limits, tokens, Instant::now());
            match begun {
                Ok(events) => return Admitted { throttle: Arc::clone(self), events },
                Err(Some(at)) => tokio::select! {
                    () = tokio::time::sleep_until(at) => {}
                    () = changed => {}
                },
                Err(None) => changed.await,
            }
        }
    }

    /// Corrects tokens that were only estimated before the start.
    pub fn correct(&self, estimated: u64, actual: u64, limits: Limits) {
        let Some(per_minute) = limits.tokens_per_minute else { return };
        let next = &mut self.state().next[2];
        *next = next.and_then(|next| match actual.checked_sub(estimated) {
            Some(more) => Some(next + time(more, per_minute)),
            None => next.checked_sub(time(estimated - actual, per_minute)),
        });
    }

    /// Whether the endpoint has limited calls so often without an answer that it should be told, for the first time since its
    /// last answer.
    pub fn is_stuck_anew(&self) -> bool {
        let mut state = self.state();
        let is_anew = state.unanswered >= STUCK && !state.is_told;
        state.is_told |= is_anew;
        is_anew
    }

    /// Calls in flight now.
    #[cfg(test)]
    pub fn in_flight(&self) -> u32 {
        self.state().in_flight
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    /// The endpoint answered.
    pub fn answered(&self) {
        self.throttle.state().answered();
    }

    /// The endpoint took the call for one too many, and may ask for a pause. How often it did so since its last answer.
    pub fn limited(&self, after: Option<Duration>) -> u32 {
        self.throttle.state().limited(self.events, after, Instant::now())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.throttle.state().in_flight -= 1;
        self.throttle.changed.notify_waiters();
    }
}

impl State {
    /// Begins a call, or says when to try again: at a time, or when a call has ended.
    fn begin(&mut self, limits: Limits, tokens: u64, now: Instant) -> Result<u64, Option<Instant>> {
        self.at_once = limits.at_once;
        let most = self.window.min(f64::from(limits.at_once));
        if f64::from(self.in_flight) + 1.0 > most.max(1.0) {
            return Err(None);
        }
        let own = [None, limits.requests_per_minute.map(|_| ()), limits.tokens_per_minute.map(|_| ())];
        let of_settings = self.next.iter().zip(own).filter(|(_, own)| own.is_some()).map(|(next, _)| *next);
        let waits = of_settings.chain([self.next[0].filter(|_| self.pace.is_some()), self.paused_until]);
        if let Some(at) = waits.flatten().max().filter(|at| *at > now) {
            return Err(Some(at));
        }
        self.go_on_after_limit();
        self.since.get_or_insert(now);
        self.taken += 1;
        self.in_flight += 1;
        let step = [
            self.pace.map(|pace| Duration::from_secs_f64((1.0 / pace).min(86_400.0))),
            limits.requests_per_minute.map(|per_minute| time(1, per_minute)),
            limits.tokens_per_minute.map(|per_minute| time(tokens, per_minute)),
        ];
        for (next, step) in self.next.iter_mut().zip(step) {
            *next = step.map(|step| next.map_or(now, |next| next.max(now)) + step).or(*next);
        }
        Ok(self.events)
    }

    fn answered(&mut self) {
        (self.unanswered, self.is_told) = (0, false);
        let wider = self.window + if self.is_rising { 1.0 } else { WIDENED };
        self.window = wider.min(f64::from(self.at_once));
        self.pace = self.pace.map(|pace| pace * QUICKENED);
    }

    /// A call that started after so many events is limited.
    fn limited(&mut self, events: u64, after: Option<Duration>, now: Instant) -> u32 {
        if events == self.events {
            self.taken = self.taken.saturating_sub(1);
        }
        if events == self.events && self.limited_at.is_none() {
            self.limited_at = Some(now);
            self.is_rising = false;
            self.window = (self.window.min(f64::from(self.in_flight)) / 2.0).max(1.0);
            self.unanswered += 1;
            self.paused_until = self.paused_until.max(Some(now + retry::pause(self.unanswered, after)));
        } else if let Some(after) = after {
            self.paused_until = self.paused_until.max(Some(now + retry::asked(after)));
        }
        self.unanswered
    }

    /// The first start after a limit: by now it is known how many calls the endpoint took.
    fn go_on_after_limit(&mut self) {
        let (Some(limited_at), Some(since)) = (self.limited_at.take(), self.since.take()) else { return };
        let span = limited_at.duration_since(since).max(SHORTEST_SPAN).as_secs_f64();
        self.pace = match (self.taken, self.pace) {
            (0, pace) => pace.map(|pace| pace * STALLED),
            (taken, pace) => Some(pace.unwrap_or(f64::INFINITY).min(f64::from(taken) / span) * SLOWED),
        };
        self.taken = 0;
        self.events += 1;
    }
}

/// How long an amount takes, a day at most.
fn time(amount: u64, per_minute: u32) -> Duration {
    Duration::from_secs_f64((amount as f64 * 60.0 / f64::from(per_minute)).min(86_400.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Limits = Limits { at_once: 64, requests_per_minute: None, tokens_per_minute: None };
    /// How soon an endpoint says that it is asked too much.
    const REFUSED: Duration = Duration::from_millis(5);

    /// What answers take from an endpoint, in virtual time.
    struct Asked {
        seconds: f64,
        requests: f64,
        most_in_flight: u32,
    }

    /// Asks an endpoint that takes so many starts in each second and answers each after `latency`.
    fn ask(answers: usize, per_second: usize, latency: Duration, after: Option<Duration>) -> Asked {
        let (begin, mut state) = (Instant::now(), State::default());
        let (mut now, mut waiting, mut done, mut sent, mut most_in_flight) = (begin, answers, 0, Vec::new(), 0);
        let mut under_way: Vec<(Instant, u64, bool)> = Vec::new();
        while done < answers {
            let mut next = None;
            while waiting > 0 {
                match state.begin(FREE, 1, now) {
                    Ok(events) => {
                        let second = now.duration_since(begin).as_secs();
                        let taken = sent.iter().filter(|(of, is_taken)| *of == second && *is_taken).count();
                        let is_taken = taken < per_second;
                        sent.push((second, is_taken));
                        under_way.push((now + if is_taken { latency } else { REFUSED }, events, is_taken));
                        waiting -= 1;
                        most_in_flight = most_in_flight.max(state.in_flight);
                    }
                    Err(at) => {
                        next = at;
                        break;
                    }
                }
            }
            now = next.into_iter().chain(under_way.iter().map(|call| call.0)).min().unwrap();
            for (_, events, is_taken) in under_way.extract_if(.., |call| call.0 <= now) {
                match is_taken {
                    true => state.answered(),
                    false => drop(state.limited(events, after, now)),
                }
                state.in_flight -= 1;
                (done, waiting) = if is_taken { (done + 1, waiting) } else { (done, waiting + 1) };
            }
        }
        let seconds = now.duration_since(begin).as_secs_f64();
        Asked { seconds, requests: sent.len() as f64 / answers as f64, most_in_flight }
    }

    #[test]
    fn a_limit_costs_time_and_few_requests() {
        for per_second in [2, 5, 20] {
            for latency in [Duration::from_millis(50), Duration::from_secs(1)] {
                for after in [None, Some(Duration::from_secs(1))] {
                    let Asked { seconds, requests, .. } = ask(150, per_second, latency, after);
                    let least = 150.0 / per_second as f64 + latency.as_secs_f64();
                    let what = format!("{per_second} a second, {latency:?}, {after:?}: {requests}, {seconds} s");
                    assert!(requests <= 1.3 && seconds <= 3.0 * least, "{what}");
                }
            }
        }
    }

    #[test]
    fn all_that_is_allowed_is_in_flight_soon() {
        let Asked { seconds, requests, most_in_flight } = ask(376, usize::MAX, Duration::from_secs(1), None);
        // 8, 16, 32, then five times 64.
        assert_eq!((seconds, requests, most_in_flight), (8.0, 1.0, 64));
    }

    #[tokio::test]
    async fn who_gives_up_takes_nothing_from_the_others() {
        let throttle = Arc::new(Throttle::default());
        let limits = Limits { requests_per_minute: Some(600), ..FREE };
        let begin = Instant::now();
        drop(throttle.admit(limits, 1).await);
        {
            let mut abandoned: Vec<_> = (0..50).map(|_| Box::pin(throttle.admit(limits, 1))).collect();
            for abandoned in &mut abandoned {
                assert!(futures::poll!(abandoned).is_pending());
            }
        }
        drop(throttle.admit(limits, 1).await);
        let next = throttle.state().next[1].unwrap();
        assert_eq!(next.duration_since(begin).as_millis() / 100, 2);
    }

    #[test]
    fn starts_keep_the_pace_of_the_settings_and_tokens_are_corrected() {
        let (mut state, now) = (State::default(), Instant::now());
        let limits = Limits { requests_per_minute: Some(120), ..FREE };
        assert!(state.begin(limits, 1, now).is_ok());
        assert_eq!(state.begin(limits, 1, now), Err(Some(now + Duration::from_millis(500))));
        assert!(state.begin(limits, 1, now + Duration::from_millis(500)).is_ok());
        assert!(state.begin(FREE, 1, now).is_ok());

        let throttle = Throttle::default();
        let limits = Limits { tokens_per_minute: Some(120), ..FREE };
        assert!(throttle.state().begin(limits, 1, now).is_ok());
        throttle.correct(1, 11, limits);
        throttle.correct(1, 1000, FREE);
        assert_eq!(throttle.state().begin(limits, 1, now), Err(Some(now + Duration::from_millis(5500))));
        throttle.correct(11, 1, limits);
        assert_eq!(throttle.state().begin(limits, 1, now), Err(Some(now + Duration::from_millis(500))));
    }

    #[tokio::test]
    async fn another_number_of_calls_at_once_counts_those_that_run() {
        let throttle = Arc::new(Throttle::default());
        let (two, three) = (Limits { at_once: 2, ..FREE }, Limits { at_once: 3, ..FREE });
        let mut running = vec![throttle.admit(two, 1).await, throttle.admit(two, 1).await];
        running.push(throttle.admit(three, 1).await);
        let mut waiting = Box::pin(throttle.admit(two, 1));
        assert!(futures::poll!(&mut waiting).is_pending());
        running.truncate(1);
        assert!(futures::poll!(&mut waiting).is_ready());
    }

    #[test]
    fn that_nothing_is_answered_is_told_once_until_something_is() {
        let throttle = Arc::new(Throttle::default());
        let limited = || {
            let mut state = throttle.state();
            let now = Instant::now();
            (state.next, state.paused_until) = ([None; 3], None);
            let events = state.begin(FREE, 1, now).unwrap();
            state.limited(events, None, now);
            state.in_flight -= 1;
            drop(state);
            throttle.is_stuck_anew()
        };
        assert_eq!([(); 5].map(|()| limited()), [false, false, true, false, false]);
        throttle.state().answered();
        assert_eq!([(); 4].map(|()| limited()), [false, false, true, false]);
    }
}
