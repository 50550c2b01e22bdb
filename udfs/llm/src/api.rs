//! The API of an endpoint: how a request is written, and where a response has its answer.

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::chat::Served;
use crate::form::Sent;
use crate::request::ChatRequest;
use crate::secret::Secret;

/// All that differs between the APIs of endpoints. Errors are read by their status and words, whatever the API.
#[derive(Debug)]
pub struct Api {
    /// The path that is appended to `asap.anchor.base_url`.
    pub(super) path: &'static str,
    /// The headers of a request with this key, without the content type.
    pub(super) headers: fn(Option<&Secret>) -> HeaderMap,
    /// The body of a request in the form that the endpoint accepts, as JSON.
    pub(super) body: fn(&ChatRequest, Sent) -> serde_json::Result<Vec<u8>>,
    /// Reads the body of a response with a success status.
    pub(super) read: fn(&Value) -> Completion,
    /// The path of the list of models, in place of `path`.
    pub(super) models_path: &'static str,
    /// Reads the list of models; None if it is not such a list.
    pub(super) served: fn(&Value) -> Option<Vec<Served>>,
}

/// A response without an error.
#[derive(Debug)]
pub(super) struct Completion {
    /// The tokens of the prompt and of the answer, if the endpoint counts them.
    pub tokens: [Option<u64>; 2],
    /// The model's name by the endpoint.
    pub model: Option<String>,
    /// None if the response has no answer.
    pub answer: Option<Choice>,
}

/// The answer of a response.
#[derive(Debug)]
pub(super) struct Choice {
    pub text: Option<String>,
    /// The thought, if the endpoint returns it separately.
    pub reasoning: Option<String>,
    pub end: End,
    /// The end in the endpoint's own word.
    pub finish_reason: Option<String>,
}

/// Why an answer ended.
#[derive(Debug)]
pub(super) enum End {
    Stop,
    Length,
    Filter,
    /// The model refused, in these words.
    Refusal(String),
}
