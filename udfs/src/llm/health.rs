//! Tells failures of an endpoint from failures of a session's rows.

use super::breaker::{IN_A_ROW, down};
use super::chat::{CallError, FailureKind, Outcome};

/// This many requests in a row that are rejected with the same words are a verdict: the key, account, model or a
/// setting is wrong, not the rows.
const ALIKE: u64 = 20;

/// The outcomes of a session's requests. The [`Breaker`](super::breaker::Breaker) judges those of the whole process.
#[derive(Debug, Default)]
pub(crate) struct Health {
    pub is_answered: bool,
    /// The last failure of the endpoint, and the number of such failures since the last answer.
    last_failure: Option<String>,
    failed_in_a_row: u64,
    /// The number of denied requests, and the last denial until a later request is answered.
    pub denials: u64,
    denial: Option<String>,
    turned_down: Option<TurnedDown>,
}

/// Requests that were rejected with the same words since the last answer.
#[derive(Debug)]
struct TurnedDown {
    words: String,
    calls: u64,
    last: String,
}

impl Health {
    /// Records the outcome of a request that was sent after `denials` denials.
    pub(crate) fn record(&mut self, outcome: &Outcome, denials: u64) {
        let error = outcome.as_ref().err();
        if error.is_none_or(CallError::is_answer) {
            (self.is_answered, self.failed_in_a_row, self.turned_down) = (true, 0, None);
            // A denial is quick: an answer after it to a request from before it does not show that the denial is over.
            if denials == self.denials {
                self.denial = None;
            }
        }
        let Some(error) = error else { return };
        if !error.is_answer() && error.kind.blames_endpoint() {
            self.last_failure = Some(error.to_string());
            self.failed_in_a_row += 1;
        }
        if error.kind == FailureKind::Denied {
            self.denials += 1;
            self.denial = Some(error.to_string());
        }
        if error.is_turned_down {
            let (words, last) = (words(&error.message), error.to_string());
            let before = self.turned_down.take().filter(|before| before.words == words);
            self.turned_down = Some(TurnedDown { words, calls: before.map_or(0, |before| before.calls) + 1, last });
        }
    }

    /// Returns whether the last requests were rejected with the same words. Enough of them are a verdict.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.turned_down.is_some()
    }

    pub(crate) fn is_turned_down(&self) -> bool {
        self.turned_down.as_ref().is_some_and(|found| found.calls >= ALIKE)
    }

    /// Returns the last failure of the endpoint if no request of this session has been answered. Answers from before
    /// this session do not show that the endpoint works.
    pub(crate) fn unanswered(&self) -> Option<&str> {
        self.last_failure.as_deref().filter(|_| !self.is_answered)
    }

    /// Returns why recent failures may not be the rows' own.
    pub(crate) fn verdict(&self, url: &str) -> Option<String> {
        // Key, account, address and model are the same for all rows, so a denial is not a row's fault.
        if let Some(last) = &self.denial {
            return Some(down(&format!("calls to {url} are denied, and no later call was answered"), last));
        }
        if let Some(TurnedDown { calls, last, .. }) = self.turned_down.as_ref().filter(|_| self.is_turned_down()) {
            let what =
                format!("the last {calls} calls to {url} were turned down with the same words, and none was answered");
            return Some(down(&what, last));
        }
        let failed = self.failed_in_a_row;
        let last = self.last_failure.as_ref().filter(|_| failed >= IN_A_ROW as u64)?;
        Some(down(&format!("the last {failed} calls to {url} failed"), last))
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
    use crate::llm::chat::Answer;

    #[test]
    fn requests_that_are_turned_down_alike_are_counted_until_one_is_answered() {
        let mut health = Health::default();
        let turned_down = |health: &mut Health, message: &str| {
            let error = CallError { is_turned_down: true, ..CallError::new(FailureKind::Refused, message) };
            health.record(&Err(error), 0);
            health.turned_down.as_ref().map(|found| found.calls)
        };
        assert_eq!(turned_down(&mut health, "400: no (request req_01ab-7f, 17 ms)"), Some(1));
        assert_eq!(turned_down(&mut health, "400: no (request req_9-02, 4 ms)"), Some(2));
        health.record(&Err(CallError::new(FailureKind::Refused, "the filter held the answer back")), 0);
        assert_eq!(turned_down(&mut health, "400: no (request req_3, 5 ms)"), Some(3));
        assert_eq!(turned_down(&mut health, "400: not that"), Some(1));
        health.record(&Ok(Answer { tokens_in: 1, tokens_out: 1, ..Answer::default() }), 0);
        assert!(!health.is_in_doubt());
    }

    #[test]
    fn a_denial_is_over_once_a_later_request_is_answered() {
        let mut health = Health::default();
        let answer = Ok(Answer { tokens_in: 1, tokens_out: 1, ..Answer::default() });
        let failure = |kind| Err(CallError::new(kind, "no"));
        health.record(&answer, 0);
        assert_eq!(health.denial, None);
        health.record(&failure(FailureKind::Denied), 0);
        for (outcome, denials) in
            [(&answer, 0), (&failure(FailureKind::Refused), 1), (&failure(FailureKind::Timeout), 1)]
        {
            health.record(outcome, denials);
            assert_eq!(health.denial.as_deref(), Some("denied: no"));
        }
        health.record(&answer, health.denials);
        assert_eq!(health.denial, None);
    }
}
