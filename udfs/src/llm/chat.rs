//! One question to a language model, one answer or one reason why there is none.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;

use super::request::ChatRequest;
use super::usage::Usage;
use crate::flights::{Callers, Paying};

/// What a language model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Tokens of the prompt.
    pub tokens_in: u64,
    /// Tokens of the answer, thinking included.
    pub tokens_out: u64,
}

/// Why a call gave no answer; its name is the row's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// `timeout`: no complete answer within the time.
    Timeout,
    /// `rate_limited`: the endpoint takes no more requests for now.
    RateLimited,
    /// `unavailable`: no connection, a cut connection, or a server's error (5xx).
    Unavailable,
    /// `denied`: the endpoint takes no request of this kind: the key, the account, the address or the model is wrong.
    Denied,
    /// `refused`: the endpoint does not take this request, or its filter holds the answer back.
    Refused,
    /// `bad_response`: what came is no chat completion, or one without text.
    BadResponse,
    /// `too_long`: the prompt does not fit into the model's window, or the answer was cut off.
    TooLong,
    /// `budget`: the session has spent what it may.
    Budget,
    /// `endpoint_down`: too many calls failed. It ends the query and is no row's status.
    EndpointDown,
}

impl FailureKind {
    const ALL: [Self; 9] = [
        Self::Timeout,
        Self::RateLimited,
        Self::Unavailable,
        Self::Denied,
        Self::Refused,
        Self::BadResponse,
        Self::TooLong,
        Self::Budget,
        Self::EndpointDown,
    ];

    /// Its name, as rows show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::BadResponse => "bad_response",
            Self::TooLong => "too_long",
            Self::Budget => "budget",
            Self::EndpointDown => "endpoint_down",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the endpoint is to blame, and not this one request or a limit of ours.
    pub(crate) fn blames_endpoint(self) -> bool {
        matches!(self, Self::Timeout | Self::RateLimited | Self::Unavailable | Self::Denied | Self::BadResponse)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call without an answer. It may have been paid all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct CallError {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What was expected and what was found.
    pub message: String,
    /// Tokens of the prompt that were paid.
    pub tokens_in: u64,
    /// Tokens of the useless answer that were paid.
    pub tokens_out: u64,
    /// Whether the endpoint turned the request down for a reason other than the text's content or length: many in a row
    /// with the same words are no row's own fault.
    pub is_turned_down: bool,
}

impl CallError {
    /// A failure that nothing was paid for.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), tokens_in: 0, tokens_out: 0, is_turned_down: false }
    }

    /// Whether the model said something, useless or not: that was paid.
    pub fn is_answer(&self) -> bool {
        self.tokens_out > 0
    }

    /// Whether there is an answer, paid and cut off where it became too long.
    pub fn is_cut_off(&self) -> bool {
        self.kind == FailureKind::TooLong && self.tokens_out > 0
    }
}

/// What came of a call.
pub type Outcome = std::result::Result<Answer, CallError>;

/// What came of asking once.
#[derive(Debug)]
pub struct Reply {
    /// The answer, or why there is none.
    pub outcome: Outcome,
    /// What its reservations counted for it: nothing, where it was not sent.
    pub used: Usage,
    /// What was paid is kept though nobody may wait for it any longer; None if nothing was.
    pub paying: Option<Paying>,
}

impl Reply {
    pub(crate) fn unsent(error: CallError) -> Self {
        Self { outcome: Err(error), used: Usage::default(), paying: None }
    }
}

/// A language model that can be asked, wherever it runs.
#[async_trait]
pub trait Chat: Debug + Send + Sync {
    /// Asks once: limits, retries, the budget and what is counted are the model's own business; caches are not. What
    /// costs money to begin is begun only while one of `callers` waits, and is held then.
    async fn chat(&self, request: &ChatRequest, callers: &Arc<Callers>) -> Reply;

    /// Why nothing that was asked lately can be trusted to be the rows' own failure: the model is down, or it denies.
    fn verdict(&self) -> Option<String> {
        None
    }

    /// Whether it has ended and answers no more.
    fn is_over(&self) -> bool {
        false
    }
}
