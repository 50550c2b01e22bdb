//! OpenAI's chat completions API: only `POST {base_url}/chat/completions`.

use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde::Serialize;
use serde_json::Value;

use super::api::{Api, Completion, End};
use super::request::{ChatRequest, Message};
use super::secret::Secret;

pub(super) const API: Api = Api { path: "/chat/completions", headers, body, read };

fn headers(key: Option<&Secret>) -> HeaderMap {
    key.and_then(Secret::bearer).map(|bearer| (AUTHORIZATION, bearer)).into_iter().collect()
}

fn body(request: &ChatRequest) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        messages: &'a [Message],
        temperature: f64,
        top_p: f64,
        max_tokens: u32,
    }
    let ChatRequest { model, messages, temperature, top_p, max_tokens, .. } = request;
    serde_json::to_vec(&Body { model, messages, temperature: *temperature, top_p: *top_p, max_tokens: *max_tokens })
}

fn read(completion: &Value) -> Completion {
    let tokens = ["prompt_tokens", "completion_tokens"].map(|name| tokens(&completion["usage"][name]));
    let choice = &completion["choices"][0];
    let answer = choice.is_object().then(|| {
        let end = match (choice["finish_reason"].as_str(), choice["message"]["refusal"].as_str()) {
            (Some("length"), _) => End::Length,
            (Some("content_filter"), _) => End::Filter,
            (_, Some(refusal)) => End::Refusal(refusal.to_string()),
            _ => End::Stop,
        };
        (content(&choice["message"]["content"]), end)
    });
    Completion { tokens, answer }
}

fn tokens(found: &Value) -> Option<u64> {
    found.as_u64().or_else(|| found.as_f64().filter(|tokens| *tokens >= 0.0).map(|tokens| tokens as u64))
}

fn content(found: &Value) -> Option<String> {
    match found {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| part["text"].as_str()).collect()),
        _ => None,
    }
}
