//! Decides whether an endpoint is down. Each request asks before it is sent ([`Health::admit`]) and reports its outcome
//! ([`Health::report`]). A command asks before it commits failed rows and at its end ([`Health::standing`]).
//!
//! ```text
//!                ┌────── an answer ───────┐
//!                ▼                        │
//!  untried ─▶ answering ── a failure ─▶ failing ── too many failures ─▶ down ── 30 s ─▶ untried
//!     └─ no connection ─▶ unreachable
//! ```
//!
//! | state | requests | rows that failed |
//! |---|---|---|
//! | untried, answering | are sent | become rejects |
//! | failing | are sent | wait, or end the command if they may not be the cause |
//! | down | get the error that ends the query | are not committed |
//! | unreachable | got [`FailureKind::Unreachable`], which ends the query | do not exist |
//!
//! A command ends with [`FailureKind::Unreachable`] (exit code 75) if its last failure may pass, such as a broken
//! connection or a server error, and else with [`FailureKind::EndpointDown`] (exit code 1).
//!
//! The calls of the whole process decide whether an endpoint is down ([`LastCalls`]), so that no session finds it out
//! again. A session's own requests decide about its rows ([`OwnCalls`]): answers from before the session do not show
//! that the endpoint works. A refused request is a failure of its row, unless many are refused with the same words.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use asap_kernels::front_end::{Again, Setting, either};
use parking_lot::Mutex;

use crate::chat::{CallError, FailureKind, Standing};

/// Number of calls that are judged together. With fewer calls, only denials can stop the calls.
pub(crate) const CALLS: usize = 20;
/// Number of denied calls in a row that stop all calls: key, account, address and model are the same for all. After
/// this many failures in a row, or after one denial, nothing is committed.
const IN_A_ROW: usize = 3;
/// This many requests in a row that are rejected with the same words end the query: the key, account, model or a
/// setting is wrong, not the rows.
const ALIKE: u64 = 20;
/// How long an endpoint is down before a request tries it again.
const DOWN: Duration = Duration::from_secs(30);

/// A nonzero number for each key, and 0 without a key.
pub(crate) type Account = u64;

/// The health of an endpoint, as the requests of one session with one account see it.
#[derive(Debug)]
pub(crate) struct Health {
    address: String,
    last: Arc<Mutex<LastCalls>>,
    own: Arc<Mutex<OwnCalls>>,
    account: Account,
    /// The share of the last calls that may fail. With 1, failures never stop calls.
    allowed: f64,
}

/// The last calls of all sessions to an endpoint.
#[derive(Debug, Default)]
pub(crate) struct LastCalls {
    failed: VecDeque<bool>,
    /// Denied calls since the last call that was not denied, and their account.
    denied: usize,
    account: Account,
    down: Option<Down>,
}

#[derive(Debug)]
struct Down {
    until: Instant,
    error: CallError,
    denied: Option<Account>,
}

/// The outcomes of a session's requests.
#[derive(Debug, Default)]
pub(crate) struct OwnCalls {
    is_answered: bool,
    /// The last failure of the endpoint, and the number of such failures since the last answer.
    last_failure: Option<CallError>,
    failed_in_a_row: u64,
    /// The number of denied requests, and the last denial until a later request is answered.
    denials: u64,
    denial: Option<String>,
    rejections: Option<Rejections>,
}

/// Requests that were rejected with the same words since the last answer.
#[derive(Debug)]
struct Rejections {
    words: String,
    calls: u64,
    last: String,
}

/// Whether the endpoint may answer later although nobody acts.
fn may_pass(error: &CallError) -> bool {
    matches!(error.kind, FailureKind::Timeout | FailureKind::RateLimited | FailureKind::Unavailable)
}

/// The error that ends a query after failures of which `last` is the last one.
fn ending(what: &str, last: &str, is_passing: bool) -> CallError {
    let (kind, advice) = match is_passing {
        true => (FailureKind::Unreachable, format!("{Again:#} when the endpoint answers")),
        false => {
            let who = either("command", "call");
            (FailureKind::EndpointDown, format!("Fix the cause first: until then, the {who} fails in the same way"))
        }
    };
    let last = last.trim_end_matches('.');
    CallError::new(kind, format!("{what}; the last one: {last}. Answers received so far are kept. {advice}"))
}

impl Health {
    pub(crate) fn new(
        address: &str,
        last: Arc<Mutex<LastCalls>>,
        own: Arc<Mutex<OwnCalls>>,
        account: Account,
        allowed: f64,
    ) -> Self {
        Self { address: address.to_string(), last, own, account, allowed }
    }

    /// Returns the number of denials before a request, which its report needs.
    pub(crate) fn denials(&self) -> u64 {
        self.own.lock().denials
    }

    /// Returns the error that ends the query if the endpoint is down for this account.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), CallError> {
        let mut state = self.last.lock();
        match &state.down {
            Some(down) if now < down.until && down.denied.is_none_or(|denied| denied == self.account) => {
                Err(down.error.clone())
            }
            Some(_) => {
                *state = LastCalls::default();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns whether a request of the session was answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.own.lock().is_answered
    }

    /// Records the outcome of a request that was begun after `denials` denials. Returns it, or the error that ends the query.
    pub(crate) fn report<T>(&self, outcome: Result<T, CallError>, denials: u64, now: Instant) -> Result<T, CallError> {
        self.record(&outcome, now);
        let is_alike = {
            let mut own = self.own.lock();
            own.record(&outcome, denials);
            own.are_rejected_alike()
        };
        match outcome {
            Err(error) if is_alike && !error.ends_query() => Err(self.reason(now).unwrap_or(error)),
            outcome => outcome,
        }
    }

    fn record<T>(&self, outcome: &Result<T, CallError>, now: Instant) {
        let failure = outcome.as_ref().err();
        if failure.is_some_and(|error| !error.is_answer() && !error.kind.blames_endpoint()) {
            return;
        }
        let (mut state, account) = (self.last.lock(), self.account);
        let failure = failure.filter(|error| !error.is_answer());
        if state.failed.len() == CALLS {
            state.failed.pop_front();
        }
        state.failed.push_back(failure.is_some());
        let is_denied = failure.is_some_and(|error| error.kind == FailureKind::Denied);
        let before = if state.account == account { state.denied } else { 0 };
        (state.denied, state.account) = (if is_denied { before + 1 } else { 0 }, account);
        let failed = state.failed.iter().filter(|failed| **failed).count();
        let (Some(failure), None) = (failure, &state.down) else { return };
        let (what, denied) = if state.denied >= IN_A_ROW && self.allowed < 1.0 {
            (format!("the last {IN_A_ROW} calls to {} were denied", self.address), Some(account))
        } else if state.failed.len() == CALLS && failed as f64 > self.allowed * CALLS as f64 {
            (self.too_many(failed), None)
        } else {
            return;
        };
        state.down = Some(Down::after(&what, failure, denied, now));
    }

    fn too_many(&self, failed: usize) -> String {
        let Self { address, allowed, .. } = self;
        format!(
            "{failed} of the last {CALLS} calls to {address} failed, more than {} = {allowed} allows",
            Setting("asap.anchor.max_error_rate")
        )
    }

    /// The endpoint is down unless all calls may fail: none of the last calls was answered, retries included.
    pub(crate) fn give_up(&self, last: &CallError, now: Instant) {
        if self.allowed < 1.0 {
            let what = self.too_many(CALLS);
            self.last.lock().down.get_or_insert(Down::after(&what, last, None, now));
        }
    }

    /// Returns whether failed rows may be committed after this many calls of the session.
    pub(crate) fn standing(&self, calls: u64, now: Instant) -> Standing {
        if calls == 0 {
            return Standing::Sound;
        }
        if let (false, Some(last)) = {
            let own = self.own.lock();
            (own.is_answered, own.last_failure.clone())
        } {
            let what = format!("none of {calls} calls was answered");
            return Standing::Failing(ending(&what, &last.to_string(), may_pass(&last)));
        }
        match self.reason(now) {
            Some(why) => Standing::Failing(why),
            None if self.allowed < 1.0 && self.own.lock().rejections.is_some() => Standing::Doubtful,
            None => Standing::Sound,
        }
    }

    /// Returns why recent failures may not be the rows' own.
    fn reason(&self, now: Instant) -> Option<CallError> {
        if let Err(down) = self.admit(now) {
            return Some(down);
        }
        let (own, to) = (self.own.lock(), &self.address);
        if self.allowed >= 1.0 {
            return None;
        }
        // Key, account, address and model are the same for all rows, so a denial is not a row's fault.
        if let Some(last) = &own.denial {
            return Some(ending(&format!("calls to {to} are denied, and no later call was answered"), last, false));
        }
        if let Some(Rejections { calls, last, .. }) = own.rejections.as_ref().filter(|_| own.are_rejected_alike()) {
            let what =
                format!("the last {calls} calls to {to} were turned down with the same words, and none was answered");
            return Some(ending(&what, last, false));
        }
        let failed = own.failed_in_a_row;
        let last = own.last_failure.as_ref().filter(|_| failed >= IN_A_ROW as u64)?;
        Some(ending(&format!("the last {failed} calls to {to} failed"), &last.to_string(), may_pass(last)))
    }
}

impl Down {
    fn after(what: &str, last: &CallError, denied: Option<Account>, now: Instant) -> Self {
        Self { until: now + DOWN, error: ending(what, &last.to_string(), may_pass(last)), denied }
    }
}

impl OwnCalls {
    fn record<T>(&mut self, outcome: &Result<T, CallError>, denials: u64) {
        let error = outcome.as_ref().err();
        if error.is_none_or(CallError::is_answer) {
            (self.is_answered, self.failed_in_a_row, self.rejections) = (true, 0, None);
            // A denial is quick: an answer after it to a request from before it does not show that the denial is over.
            if denials == self.denials {
                self.denial = None;
            }
        }
        let Some(error) = error else { return };
        if !error.is_answer() && error.kind.blames_endpoint() {
            self.last_failure = Some(error.clone());
            self.failed_in_a_row += 1;
        }
        if error.kind == FailureKind::Denied {
            self.denials += 1;
            self.denial = Some(error.to_string());
        }
        if error.is_general {
            let (words, last) = (words(&error.message), error.to_string());
            let before = self.rejections.take().filter(|before| before.words == words);
            self.rejections = Some(Rejections { words, calls: before.map_or(0, |before| before.calls) + 1, last });
        }
    }

    fn are_rejected_alike(&self) -> bool {
        self.rejections.as_ref().is_some_and(|found| found.calls >= ALIKE)
    }
}

/// Returns an endpoint's message without numbers and request ids: every part with a digit.
fn words(said: &str) -> String {
    let is_inner = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let parts = said.split_inclusive(|c: char| !is_inner(c));
    parts.map(|part| if part.contains(|c: char| c.is_ascii_digit()) { "# " } else { part }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Answer, Outcome};

    /// An outcome by its name: `ok`, or the kind of a failure.
    fn outcome(name: &str) -> Outcome {
        match name {
            "ok" => Ok(Answer { tokens_in: 1, tokens_out: 1, ..Answer::default() }),
            kind => Err(CallError::new(FailureKind::named(kind).unwrap(), "no")),
        }
    }

    fn record(health: &Health, outcomes: &str, now: Instant) {
        outcomes.split(' ').for_each(|name| health.record(&outcome(name), now));
    }

    const ACCOUNT: Account = 1;

    fn health(allowed: f64) -> Health {
        Health::new("http://e", Arc::default(), Arc::default(), ACCOUNT, allowed)
    }

    fn of_other_account(health: &Health) -> Health {
        Health::new("http://e", Arc::clone(&health.last), Arc::default(), 2, 0.5)
    }

    #[test]
    fn it_stops_when_more_than_the_allowed_share_fails_and_tries_again_later() {
        let (health, now) = (health(0.5), Instant::now());
        for _ in 0..10 {
            record(&health, "timeout ok", now);
        }
        assert_eq!(health.admit(now), Ok(()));
        record(&health, "ok unavailable", now);
        assert_eq!(health.admit(now), Ok(()));
        record(&health, "denied denied", now);
        let error = health.admit(now).unwrap_err();
        assert_eq!(error.kind, FailureKind::EndpointDown);
        assert!(error.message.starts_with("11 of the last 20 calls to http://e failed"), "{error}");
        assert!(error.message.contains("denied: no"), "{error}");
        record(&health, "ok", now);
        assert!(health.admit(now).is_err() && of_other_account(&health).admit(now).is_err());
        let later = now + DOWN;
        assert_eq!(health.admit(later), Ok(()));
        record(&health, "timeout", later);
        assert_eq!(health.admit(later), Ok(()));
    }

    #[test]
    fn failures_of_rows_do_not_stop_it_whether_or_not_anything_was_answered() {
        let now = Instant::now();
        let of_rows = "refused too_long budget";
        for (allowed, first, others, is_down) in [
            (0.0, "refused", of_rows, false),
            (0.0, "ok", of_rows, false),
            (0.0, "bad_response", "bad_response", true),
            (1.0, "timeout", "timeout", false),
        ] {
            let health = health(allowed);
            record(&health, first, now);
            (0..CALLS).for_each(|_| record(&health, others, now));
            assert_eq!(health.admit(now).is_err(), is_down, "{first}, {others}");
        }
    }

    #[test]
    fn it_is_given_up_unless_all_calls_may_fail() {
        let (now, last) = (Instant::now(), CallError::new(FailureKind::Unavailable, "no"));
        for (allowed, is_down) in [(0.0, true), (0.9, true), (1.0, false)] {
            let health = health(allowed);
            health.give_up(&last, now);
            let error = health.admit(now).err().map(|error| error.message).unwrap_or_default();
            let said =
                format!("20 of the last 20 calls to http://e failed, more than asap.anchor.max_error_rate = {allowed}");
            assert_eq!(error.starts_with(&said), is_down, "{error}");
            assert_eq!(error.ends_with("Run the same command again when the endpoint answers"), is_down, "{error}");
        }
    }

    #[test]
    fn three_that_are_denied_in_a_row_stop_it_for_their_account() {
        let (health, now) = (health(0.5), Instant::now());
        record(&health, "ok ok ok ok ok denied denied ok denied denied", now);
        assert_eq!(health.admit(now), Ok(()));
        record(&health, "denied", now);
        let said = "the last 3 calls to http://e were denied; the last one: denied: no";
        let error = health.admit(now).unwrap_err();
        assert!(error.message.starts_with(said), "{error}");
        assert_eq!(of_other_account(&health).admit(now), Ok(()));
    }

    #[test]
    fn requests_that_are_turned_down_alike_are_counted_until_one_is_answered() {
        let mut health = OwnCalls::default();
        let turned_down = |health: &mut OwnCalls, message: &str| {
            let error = CallError { is_general: true, ..CallError::new(FailureKind::Refused, message) };
            health.record(&Outcome::Err(error), 0);
            health.rejections.as_ref().map(|found| found.calls)
        };
        assert_eq!(turned_down(&mut health, "400: no (request req_01ab-7f, 17 ms)"), Some(1));
        assert_eq!(turned_down(&mut health, "400: no (request req_9-02, 4 ms)"), Some(2));
        health.record(&outcome("refused"), 0);
        assert_eq!(turned_down(&mut health, "400: no (request req_3, 5 ms)"), Some(3));
        assert_eq!(turned_down(&mut health, "400: not that"), Some(1));
        health.record(&outcome("ok"), 0);
        assert!(health.rejections.is_none());
    }
}
