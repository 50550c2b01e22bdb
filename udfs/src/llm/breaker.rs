//! Stops a run whose endpoint is down before all of its rows become rejects.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::chat::{CallError, FailureKind, Outcome};

/// Number of calls that are judged together. With fewer calls, only denials can stop the calls.
pub(super) const CALLS: usize = 20;
/// Number of denied calls in a row that stop all calls: key, account, address and model are the same for all. After
/// this many failures in a row, or after one denial, nothing is committed.
pub(crate) const IN_A_ROW: usize = 3;
const STOPPED: Duration = Duration::from_secs(30);

/// Stops all calls to an endpoint if too many of the last calls failed. A rejected request is not a failure of the
/// endpoint.
#[derive(Debug)]
pub(crate) struct Breaker {
    base_url: String,
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    failed: VecDeque<bool>,
    /// Denied calls since the last call that was not denied, and their account.
    denied: usize,
    account: Account,
    stop: Option<Stop>,
}

#[derive(Debug)]
struct Stop {
    until: Instant,
    error: CallError,
    denied: Option<Account>,
}

pub(super) fn down(what: &str, last: &str) -> String {
    let last = last.trim_end_matches('.');
    format!(
        "{what}; the last one: {last}. Answers received so far are kept. Fix the cause first: until then, the command \
         fails in the same way"
    )
}

pub(crate) type Account = u64;

impl Breaker {
    pub(crate) fn new(base_url: &str) -> Self {
        Self { base_url: base_url.to_string(), state: Mutex::default() }
    }

    pub(crate) fn check(&self, account: Account, now: Instant) -> Result<(), CallError> {
        let mut state = self.state.lock();
        match &state.stop {
            Some(stop) if now < stop.until && stop.denied.is_none_or(|denied| denied == account) => {
                Err(stop.error.clone())
            }
            Some(_) => {
                *state = BreakerState::default();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Records the outcome of a finished call of this account. At most the share `allowed` of the last calls may fail.
    pub(crate) fn record(&self, outcome: &Outcome, account: Account, allowed: f64, now: Instant) {
        let failure = outcome.as_ref().err();
        if failure.is_some_and(|error| !error.is_answer() && !error.kind.blames_endpoint()) {
            return;
        }
        let mut state = self.state.lock();
        let failure = failure.filter(|error| !error.is_answer());
        if state.failed.len() == CALLS {
            state.failed.pop_front();
        }
        state.failed.push_back(failure.is_some());
        let is_denied = failure.is_some_and(|error| error.kind == FailureKind::Denied);
        let before = if state.account == account { state.denied } else { 0 };
        (state.denied, state.account) = (if is_denied { before + 1 } else { 0 }, account);
        let failed = state.failed.iter().filter(|failed| **failed).count();
        let (Some(failure), None) = (failure, &state.stop) else { return };
        let (what, denied) = if state.denied >= IN_A_ROW && allowed < 1.0 {
            (format!("the last {IN_A_ROW} calls to {} were denied", self.base_url), Some(account))
        } else if state.failed.len() == CALLS && failed as f64 > allowed * CALLS as f64 {
            (self.too_many(failed, allowed), None)
        } else {
            return;
        };
        let error = CallError::new(FailureKind::EndpointDown, down(&what, &failure.to_string()));
        state.stop = Some(Stop { until: now + STOPPED, error, denied });
    }

    /// Stops all calls unless all may fail. Called when none of the last calls was answered, retries included.
    pub(crate) fn give_up(&self, last: &CallError, allowed: f64, now: Instant) {
        if allowed < 1.0 {
            let what = self.too_many(CALLS, allowed);
            let error = CallError::new(FailureKind::EndpointDown, down(&what, &last.to_string()));
            let mut state = self.state.lock();
            state.stop.get_or_insert(Stop { until: now + STOPPED, error, denied: None });
        }
    }

    fn too_many(&self, failed: usize, allowed: f64) -> String {
        let base_url = &self.base_url;
        format!(
            "{failed} of the last {CALLS} calls to {base_url} failed, more than asap.anchor.max_error_rate = {allowed} allows"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::chat::Answer;

    fn right() -> Outcome {
        Ok(Answer { tokens_in: 1, tokens_out: 1, ..Answer::default() })
    }

    fn wrong(kind: FailureKind) -> Outcome {
        Err(CallError::new(kind, "no"))
    }

    const ACCOUNT: Account = 1;

    #[test]
    fn it_stops_when_more_than_the_allowed_share_fails_and_tries_again_later() {
        let (breaker, now) = (Breaker::new("http://e"), Instant::now());
        let record = |outcome: Outcome, now| breaker.record(&outcome, ACCOUNT, 0.5, now);
        for number in 0..20 {
            record(if number % 2 == 0 { wrong(FailureKind::Timeout) } else { right() }, now);
        }
        assert_eq!(breaker.check(ACCOUNT, now), Ok(()));
        record(right(), now);
        record(wrong(FailureKind::Unavailable), now);
        assert_eq!(breaker.check(ACCOUNT, now), Ok(()));
        record(wrong(FailureKind::Denied), now);
        record(wrong(FailureKind::Denied), now);
        let error = breaker.check(ACCOUNT, now).unwrap_err();
        assert_eq!(error.kind, FailureKind::EndpointDown);
        assert!(error.message.starts_with("11 of the last 20 calls to http://e failed"), "{error}");
        assert!(error.message.contains("denied: no"), "{error}");
        record(right(), now);
        assert!(breaker.check(ACCOUNT, now).is_err() && breaker.check(2, now).is_err());
        let later = now + STOPPED;
        assert_eq!(breaker.check(ACCOUNT, later), Ok(()));
        record(wrong(FailureKind::Timeout), later);
        assert_eq!(breaker.check(ACCOUNT, later), Ok(()));
    }

    #[test]
    fn failures_of_rows_do_not_stop_it_whether_or_not_anything_was_answered() {
        for is_answered in [false, true] {
            let (breaker, now) = (Breaker::new("http://e"), Instant::now());
            if is_answered {
                breaker.record(&right(), ACCOUNT, 0.0, now);
            }
            for kind in [FailureKind::Refused, FailureKind::TooLong, FailureKind::Budget].repeat(20) {
                breaker.record(&wrong(kind), ACCOUNT, 0.0, now);
            }
            assert_eq!(breaker.check(ACCOUNT, now), Ok(()));
        }
        let (breaker, now) = (Breaker::new("http://e"), Instant::now());
        (0..CALLS).for_each(|_| breaker.record(&wrong(FailureKind::BadResponse), ACCOUNT, 0.0, now));
        assert!(breaker.check(ACCOUNT, now).is_err());
        let patient = Breaker::new("http://e");
        (0..50).for_each(|_| patient.record(&wrong(FailureKind::Timeout), ACCOUNT, 1.0, now));
        assert_eq!(patient.check(ACCOUNT, now), Ok(()));
    }

    #[test]
    fn it_is_given_up_unless_all_calls_may_fail() {
        let (now, last) = (Instant::now(), CallError::new(FailureKind::Unavailable, "no"));
        for (allowed, is_down) in [(0.0, true), (0.9, true), (1.0, false)] {
            let breaker = Breaker::new("http://e");
            breaker.give_up(&last, allowed, now);
            let error = breaker.check(ACCOUNT, now).err().map(|error| error.message).unwrap_or_default();
            let said =
                format!("20 of the last 20 calls to http://e failed, more than asap.anchor.max_error_rate = {allowed}");
            assert_eq!(error.starts_with(&said), is_down, "{error}");
        }
    }

    #[test]
    fn three_that_are_denied_in_a_row_stop_it_for_their_account() {
        let (breaker, now) = (Breaker::new("http://e"), Instant::now());
        let record = |outcome: Outcome| breaker.record(&outcome, ACCOUNT, 0.5, now);
        (0..5).for_each(|_| record(right()));
        for outcome in [
            wrong(FailureKind::Denied),
            wrong(FailureKind::Denied),
            right(),
            wrong(FailureKind::Denied),
            wrong(FailureKind::Denied),
        ] {
            record(outcome);
        }
        assert_eq!(breaker.check(ACCOUNT, now), Ok(()));
        record(wrong(FailureKind::Denied));
        let error = breaker.check(ACCOUNT, now).unwrap_err();
        assert!(
            error.message.starts_with("the last 3 calls to http://e were denied; the last one: denied: no"),
            "{error}"
        );
        assert_eq!(breaker.check(2, now), Ok(()));
    }
}
