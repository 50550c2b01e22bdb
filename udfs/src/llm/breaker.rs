//! What stops a run whose endpoint is dead before it turns a lake into rejects.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::chat::{CallError, Kind, Outcome};

/// How many finished calls are judged; before there are so many, failures alone stop none.
const CALLS: usize = 20;
/// How many calls in a row are denied before all are stopped: key, account, address and model are the same for all.
const DENIED: usize = 3;
/// How long a breaker stops all calls before it lets them try again.
const STOPPED: Duration = Duration::from_secs(30);

/// Stops all calls to an endpoint when too many of the last ones failed.
#[derive(Debug)]
pub struct Breaker {
    base_url: String,
    /// The share of the last calls of which more may not fail.
    max_error_rate: f64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether each of the last calls failed.
    failed: VecDeque<bool>,
    /// Calls since the last one that was not denied.
    denied: usize,
    /// Whether a call was ever answered. Until then a request that is refused may be one that all calls send.
    is_proven: bool,
    stop: Option<(Instant, CallError)>,
}

impl Breaker {
    /// A breaker for the endpoint at `base_url`.
    pub fn new(base_url: &str, max_error_rate: f64) -> Self {
        Self { base_url: base_url.to_string(), max_error_rate, state: Mutex::default() }
    }

    /// Whether a call may be sent at this time.
    ///
    /// # Errors
    /// One of kind [`Kind::EndpointDown`] that says how many calls failed and how the last one did.
    pub fn check(&self, now: Instant) -> Result<(), CallError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.stop {
            Some((until, error)) if now < *until => Err(error.clone()),
            Some(_) => {
                *state = State { is_proven: state.is_proven, ..State::default() };
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Takes into account what came of a call that is finished now.
    pub fn record(&self, outcome: &Outcome, now: Instant) {
        if outcome.as_ref().is_err_and(|error| matches!(error.kind, Kind::Budget | Kind::EndpointDown)) {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_proven |= outcome.as_ref().map_or_else(CallError::is_cut_off, |_| true);
        let blames = |error: &&CallError| error.kind.blames_endpoint() || !state.is_proven;
        let failure = outcome.as_ref().err().filter(blames);
        if state.failed.len() == CALLS {
            state.failed.pop_front();
        }
        state.failed.push_back(failure.is_some());
        state.denied = if failure.is_some_and(|error| error.kind == Kind::Denied) { state.denied + 1 } else { 0 };
        let failed = state.failed.iter().filter(|failed| **failed).count();
        let (Some(failure), None) = (failure, &state.stop) else { return };
        let allowed = self.max_error_rate;
        let what = if state.denied >= DENIED && allowed < 1.0 {
            format!("the last {DENIED} calls to {} were denied", self.base_url)
        } else if state.failed.len() == CALLS && failed as f64 > allowed * CALLS as f64 {
            let base_url = &self.base_url;
            format!(
                "{failed} of the last {CALLS} calls to {base_url} failed, more than asap.anchor.max_error_rate = {allowed} allows"
            )
        } else {
            return;
        };
        let message =
            format!("{what}; the last one: {failure}. What was answered is kept; repair that and run the same again");
        state.stop = Some((now + STOPPED, CallError::new(Kind::EndpointDown, message)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::chat::Answer;

    fn right() -> Outcome {
        Ok(Answer { text: String::new(), tokens_in: 1, tokens_out: 1 })
    }

    fn wrong(kind: Kind) -> Outcome {
        Err(CallError::new(kind, "no"))
    }

    #[test]
    fn it_stops_when_more_than_the_allowed_share_fails_and_tries_again_later() {
        let (breaker, now) = (Breaker::new("http://e", 0.5), Instant::now());
        for number in 0..20 {
            breaker.record(&if number % 2 == 0 { wrong(Kind::Timeout) } else { right() }, now);
        }
        assert_eq!(breaker.check(now), Ok(()));
        breaker.record(&right(), now);
        breaker.record(&wrong(Kind::Unavailable), now);
        assert_eq!(breaker.check(now), Ok(()));
        breaker.record(&wrong(Kind::Denied), now);
        breaker.record(&wrong(Kind::Denied), now);
        let error = breaker.check(now).unwrap_err();
        assert_eq!(error.kind, Kind::EndpointDown);
        assert!(error.message.starts_with("11 of the last 20 calls to http://e failed"), "{error}");
        assert!(error.message.contains("denied: no"), "{error}");
        breaker.record(&right(), now);
        assert!(breaker.check(now).is_err());
        let later = now + STOPPED;
        assert_eq!(breaker.check(later), Ok(()));
        breaker.record(&wrong(Kind::Timeout), later);
        assert_eq!(breaker.check(later), Ok(()));
    }

    #[test]
    fn failures_of_rows_do_not_stop_it() {
        let (breaker, now) = (Breaker::new("http://e", 0.0), Instant::now());
        breaker.record(&right(), now);
        for kind in [Kind::Refused, Kind::TooLong, Kind::Budget].repeat(20) {
            breaker.record(&wrong(kind), now);
        }
        assert_eq!(breaker.check(now), Ok(()));
        breaker.record(&wrong(Kind::BadResponse), now);
        assert!(breaker.check(now).is_err());
        let patient = Breaker::new("http://e", 1.0);
        (0..50).for_each(|_| patient.record(&wrong(Kind::Timeout), now));
        assert_eq!(patient.check(now), Ok(()));
    }

    #[test]
    fn a_request_that_is_refused_from_the_first_call_on_stops_it() {
        let (breaker, now) = (Breaker::new("http://e", 0.5), Instant::now());
        (0..19).for_each(|_| breaker.record(&wrong(Kind::Refused), now));
        assert_eq!(breaker.check(now), Ok(()));
        breaker.record(&wrong(Kind::TooLong), now);
        assert!(breaker.check(now).unwrap_err().message.starts_with("20 of the last 20"));
    }

    #[test]
    fn three_that_are_denied_in_a_row_stop_it() {
        let (breaker, now) = (Breaker::new("http://e", 0.5), Instant::now());
        (0..5).for_each(|_| breaker.record(&right(), now));
        for outcome in [wrong(Kind::Denied), wrong(Kind::Denied), right(), wrong(Kind::Denied), wrong(Kind::Denied)] {
            breaker.record(&outcome, now);
        }
        assert_eq!(breaker.check(now), Ok(()));
        breaker.record(&wrong(Kind::Denied), now);
        let error = breaker.check(now).unwrap_err();
        assert!(
            error.message.starts_with("the last 3 calls to http://e were denied; the last one: denied: no"),
            "{error}"
        );
    }
}
