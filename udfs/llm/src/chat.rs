//! One request to a language model, and its answer or the reason why there is none.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::sync::Arc;

use asap_kernels::{health, tags};
use async_trait::async_trait;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::flights::{Callers, Hold};
use crate::request::ChatRequest;
use crate::usage::Usage;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    pub text: String,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub defaults: Defaults,
}

/// Whether temperature and `top_p` were left out of a request, because the endpoint accepts only its own defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Defaults(pub [bool; 2]);

impl Defaults {
    const NAMES: [&str; 2] = ["temperature", "top_p"];

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().zip(self.0).filter_map(|(name, is_left_out)| is_left_out.then_some(name))
    }

    /// Reads names that are separated by spaces.
    pub fn named(names: &str) -> Self {
        Self(Self::NAMES.map(|name| names.split(' ').any(|found| found == name)))
    }
}

/// A whole response to a conversation. In JSON it is the text of an [`Answer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The thought, if an endpoint returns it separately.
    pub reasoning: Option<String>,
    /// The answer. Without `reasoning`, it begins with the thought and its closing tag, if the model wrote one.
    pub content: String,
    /// Whether the prompt ends in an opened `<think>`, so that `content` has no opening tag. Endpoints do not report
    /// it: for them it is false.
    pub opens_thought: bool,
    /// The endpoint's word for the end, such as `stop`, or `length` if the response was cut off; None if it reports none.
    pub finish_reason: Option<String>,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    /// The model's name by the endpoint; the fingerprint of a local model.
    pub model: Option<String>,
    /// Seconds of the call that gave this response, without waits and retries before it. Calls of a local model share
    /// its time.
    pub seconds: f64,
    /// Whether no call was made for it: it was stored, or an equal request was in flight.
    #[serde(skip)]
    pub cached: bool,
}

impl ChatResponse {
    /// Returns the answer that stores this response, with the tokens that are paid.
    pub fn answer(&self, tokens_in: u64, tokens_out: u64) -> Outcome {
        match serde_json::to_string(self) {
            Ok(text) => Ok(Answer { text, tokens_in, tokens_out, ..Answer::default() }),
            Err(error) => Err(CallError::new(FailureKind::BadResponse, error.to_string())),
        }
    }

    pub fn is_cut_off(&self) -> bool {
        self.finish_reason.as_deref().and_then(health::is_cut_off) == Some(true)
    }

    /// Returns thought and answer as one generation, with the tags of the thought. A thought that was cut off has no
    /// closing tag.
    pub fn generation(&self) -> Cow<'_, str> {
        match &self.reasoning {
            Some(thought) if self.content.is_empty() && self.is_cut_off() => format!("<think>\n{thought}").into(),
            Some(thought) => tags::wrap(thought, &self.content).into(),
            None if self.opens_thought => format!("<think>\n{}", self.content).into(),
            None => self.content.as_str().into(),
        }
    }
}

/// The reason why a call gave no answer. Its name is the row's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// `timeout`: no complete answer within the time limit.
    Timeout,
    /// `rate_limited`: the endpoint accepts no more requests for now.
    RateLimited,
    /// `unavailable`: no connection, a broken connection, a server error (5xx), or an answer that the server broke off.
    Unavailable,
    /// `denied`: the endpoint accepts no request of this kind; the key, account, address or model is wrong.
    Denied,
    /// `refused`: the endpoint rejects this request, or its filter withholds the answer.
    Refused,
    /// `bad_response`: the response is not a chat completion, or has no text.
    BadResponse,
    /// `too_long`: the prompt does not fit into the model's window, or the answer was cut off.
    TooLong,
    /// `budget`: the session has reached its limit of cost or calls.
    Budget,
    /// `endpoint_down`: too many calls failed, and repeating them does not help. It ends the query and is never a row's
    /// status.
    EndpointDown,
    /// `unreachable`: the endpoint does not answer now. It ends the query, too.
    Unreachable,
}

impl FailureKind {
    const NAMES: [(Self, &str); 10] = [
        (Self::Timeout, "timeout"),
        (Self::RateLimited, "rate_limited"),
        (Self::Unavailable, "unavailable"),
        (Self::Denied, "denied"),
        (Self::Refused, "refused"),
        (Self::BadResponse, "bad_response"),
        (Self::TooLong, "too_long"),
        (Self::Budget, "budget"),
        (Self::EndpointDown, "endpoint_down"),
        (Self::Unreachable, "unreachable"),
    ];

    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// The names that are statuses of rows.
    pub fn statuses() -> impl Iterator<Item = &'static str> {
        let ends_query = |kind| matches!(kind, Self::EndpointDown | Self::Unreachable);
        Self::NAMES.into_iter().filter(move |(kind, _)| !ends_query(*kind)).map(|(_, name)| name)
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, found)| *found == name).map(|(kind, _)| *kind)
    }

    /// Returns whether the endpoint is to blame, and not this request or a limit of asap.
    pub(crate) fn blames_endpoint(self) -> bool {
        matches!(self, Self::Timeout | Self::RateLimited | Self::Unavailable | Self::Denied | Self::BadResponse)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call without an answer. It may still have cost money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct CallError {
    pub kind: FailureKind,
    pub message: String,
    pub tokens_in: u64,
    pub tokens_out: u64,
    /// Whether the endpoint rejected the request for a reason other than the text's content or length. Many such
    /// failures in a row with the same words are not the rows' fault.
    pub is_general: bool,
}

impl CallError {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), tokens_in: 0, tokens_out: 0, is_general: false }
    }

    /// Returns whether the model generated an answer, useful or not. One that the endpoint broke off does not count.
    pub fn is_answer(&self) -> bool {
        self.tokens_out > 0 && self.kind != FailureKind::Unavailable
    }

    /// Returns whether the same request may be answered later.
    pub fn is_passing(&self) -> bool {
        self.kind.blames_endpoint() && self.kind != FailureKind::Denied && !self.is_answer()
    }

    /// Returns whether no row of the query can be answered.
    pub(crate) fn ends_query(&self) -> bool {
        matches!(self.kind, FailureKind::EndpointDown | FailureKind::Unreachable)
    }

    pub fn is_cut_off(&self) -> bool {
        self.kind == FailureKind::TooLong && self.tokens_out > 0
    }
}

pub type Outcome = std::result::Result<Answer, CallError>;

/// The end of a request: its outcome, its usage, and what keeps it alive.
#[derive(Debug)]
pub struct Reply<T = Answer> {
    pub outcome: std::result::Result<T, CallError>,
    /// The usage that its reservations counted; nothing if it was not sent.
    pub used: Usage,
    /// Keeps a paid answer alive although all callers may have left; None if nothing was paid.
    pub paying: Option<Hold>,
}

impl Reply {
    pub fn unsent(error: CallError) -> Self {
        Self { outcome: Err(error), used: Usage::default(), paying: None }
    }
}

/// A model that an endpoint serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    pub id: String,
    /// Tokens of a prompt with its response, if the endpoint reports them (vLLM's `max_model_len`).
    pub window: Option<u64>,
}

/// Whether failed rows of a session may be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Rows failed by themselves.
    Sound,
    /// The last requests were rejected with the same words. Later requests show whether the rows are the cause.
    Doubtful,
    /// The endpoint may be the cause. The error ends the command.
    Failing(CallError),
}

#[async_trait]
pub trait Chat: Debug + Send + Sync {
    /// Sends one request. The implementation handles limits, retries, the budget and counts, but not caches. It starts
    /// a call that costs money only while one of `callers` waits, and then keeps it running.
    async fn chat(&self, request: &ChatRequest, callers: &Arc<Callers>) -> Reply;

    /// Returns the models that the endpoint lists; None if it lists none. It costs nothing.
    ///
    /// # Errors
    /// If there is no connection to the endpoint.
    async fn served(&self) -> std::result::Result<Option<Vec<Served>>, CallError> {
        Ok(None)
    }

    /// Returns whether failed rows may be committed after this many calls of the session.
    fn standing(&self, _calls: u64) -> Standing {
        Standing::Sound
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// A response to be read: its status, headers and text.
pub(crate) struct Received {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

/// Why a response is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// It is not whole, or not of the expected kind. The same request is sent again.
    Garbled(String),
    /// The endpoint is not what the settings say. No retry helps.
    Wrong(String),
}
