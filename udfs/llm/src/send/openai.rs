//! OpenAI's chat completions API: `POST {base_url}/chat/completions`, and `GET {base_url}/models`.

use asap_kernels::health::{self, End};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde::Serialize;
use serde_json::Value;

use crate::chat::Served;
use crate::learn::form::Sent;
use crate::learn::refusal;
use crate::request::{ChatRequest, Message};
use crate::send::secret::Secret;

/// The path that is appended to `asap.anchor.base_url`.
pub(crate) const PATH: &str = "/chat/completions";
/// The path of the list of models, in place of another.
pub(crate) const MODELS_PATH: &str = "/models";

/// A response without an error.
#[derive(Debug)]
pub(crate) struct Completion {
    /// The tokens of the prompt and of the answer, if the endpoint counts them.
    pub tokens: [Option<u64>; 2],
    /// The model's name by the endpoint.
    pub model: Option<String>,
    /// None if the response has no answer.
    pub answer: Option<Choice>,
}

/// The answer of a response.
#[derive(Debug)]
pub(crate) struct Choice {
    pub text: Option<String>,
    /// The thought, if the endpoint returns it separately.
    pub reasoning: Option<String>,
    pub end: End,
    /// The words of the model's refusal or of the endpoint's fault, or the finish reason.
    pub said: Option<String>,
    /// The end in the endpoint's own word.
    pub finish_reason: Option<String>,
}

/// Returns the headers of a request with this key, without the content type.
pub(crate) fn headers(key: Option<&Secret>) -> HeaderMap {
    key.and_then(Secret::bearer).map(|bearer| (AUTHORIZATION, bearer)).into_iter().collect()
}

/// Returns the body of a request in the form that the endpoint accepts, as JSON.
pub(crate) fn body(request: &ChatRequest, Sent { form, tokens }: Sent) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        messages: &'a [Message],
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        top_p: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_tokens: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_completion_tokens: Option<u32>,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        stop: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
        /// Some gateways stream unless a request says otherwise.
        stream: bool,
    }
    let ChatRequest { model, messages, stop, .. } = request;
    let [is_completion_limit, no_temperature, no_top_p] = form.changes;
    let temperature = (!no_temperature).then_some(request.temperature);
    let top_p = (!no_top_p).then_some(request.top_p);
    let [max_tokens, max_completion_tokens] = if is_completion_limit { [None, tokens] } else { [tokens, None] };
    let seed = request.seed;
    serde_json::to_vec(&Body {
        model,
        messages,
        temperature,
        top_p,
        max_tokens,
        max_completion_tokens,
        stop,
        seed,
        stream: false,
    })
}

/// Reads the body of a response with a success status.
pub(crate) fn read(completion: &Value) -> Completion {
    let tokens = ["prompt_tokens", "completion_tokens"].map(|name| tokens(&completion["usage"][name]));
    let choice = &completion["choices"][0];
    let answer = choice.is_object().then(|| {
        let finish_reason = word(&choice["finish_reason"]);
        let (refusal, fault) = (word(&choice["message"]["refusal"]), &choice["error"]);
        let end = match health::end(finish_reason.as_deref().unwrap_or_default()) {
            _ if !fault.is_null() => End::Fault,
            None | Some(End::Finished) if refusal.is_some() => End::Withheld,
            end => end.unwrap_or(End::Finished),
        };
        Choice {
            text: content(&choice["message"]["content"]),
            reasoning: reasoning(&choice["message"]),
            end,
            said: refusal.or_else(|| refusal::reasons(fault)).or_else(|| finish_reason.clone()),
            finish_reason,
        }
    });
    Completion { tokens, model: word(&completion["model"]), answer }
}

/// Returns the thought, from a field or from parts of the content.
fn reasoning(message: &Value) -> Option<String> {
    let fields = ["reasoning_content", "reasoning", "reasoning_details"].iter().map(|name| content(&message[name]));
    let parts = message["content"].as_array().into_iter().flatten();
    let part = parts.filter_map(|part| content(&part["thinking"])).collect();
    fields.flatten().chain([part]).find(|thought| !thought.trim().is_empty())
}

/// Reads the list of models; None if it is not such a list.
pub(crate) fn served(list: &Value) -> Option<Vec<Served>> {
    // A name with a line end could forge a line of the log.
    let name = |model: &Value| word(&model["id"]).filter(|name| !name.contains(char::is_control));
    let model = |model: &Value| Some(Served { id: name(model)?, window: model["max_model_len"].as_u64() });
    Some(list["data"].as_array()?.iter().filter_map(model).collect())
}

/// Returns the error in a response; Null if it has none. Some servers write it without a field around it.
pub(crate) fn error_of(json: &Value) -> &Value {
    if json["object"] == "error" { json } else { &json["error"] }
}

fn word(found: &Value) -> Option<String> {
    found.as_str().map(str::to_string)
}

fn tokens(found: &Value) -> Option<u64> {
    found.as_u64().or_else(|| found.as_f64().filter(|tokens| *tokens >= 0.0).map(|tokens| tokens as u64))
}

pub(crate) fn content(found: &Value) -> Option<String> {
    match found {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| part["text"].as_str()).collect()),
        _ => None,
    }
}
