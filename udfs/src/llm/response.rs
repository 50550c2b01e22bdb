//! What an endpoint's response means.

use std::time::Duration;

use chrono::Utc;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde::Deserialize;
use serde_json::Value;

use super::chat::{Answer, CallError, Kind};
use super::retry::retry_after;

/// The most characters that an error quotes of a response.
const QUOTED: usize = 300;
/// What endpoints say when a prompt does not fit into the model's window.
const TOO_LONG: [&str; 7] = [
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "maximum context",
    "max_model_len",
    "too long",
];

/// A request that failed, and whether to send it again.
#[derive(Debug, PartialEq)]
pub struct Failure {
    /// Why it failed.
    pub error: CallError,
    /// Whether the same request may succeed later.
    pub is_passing: bool,
    /// How long the endpoint asks to wait.
    pub after: Option<Duration>,
}

impl Failure {
    /// A failure that the same request would meet again.
    pub fn lasting(kind: Kind, message: impl Into<String>) -> Self {
        Self { error: CallError::new(kind, message), is_passing: false, after: None }
    }

    /// A failure that may be over soon.
    pub fn passing(kind: Kind, message: impl Into<String>) -> Self {
        Self { is_passing: true, ..Self::lasting(kind, message) }
    }
}

#[derive(Deserialize)]
struct Completion {
    choices: Option<Vec<Choice>>,
    usage: Option<Tokens>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Said>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

/// The answer in a response, or what is wrong with it. `asked` is the prompt's length in bytes: an endpoint that does
/// not say what a call took is taken to have used a token for four bytes.
///
/// # Errors
/// Everything but one choice with a text that the model finished.
pub fn read(status: StatusCode, headers: &HeaderMap, body: &str, asked: usize) -> Result<Answer, Failure> {
    if !status.is_success() {
        return Err(of_status(status, headers, body));
    }
    let completion: Completion = serde_json::from_str(body)
        .map_err(|error| bad(format!("expected a chat completion, found ({error}): {}", quoted(body))))?;
    if let Some(error) = completion.error.as_ref().filter(|error| !error.is_null()) {
        let code = error["code"].as_u64().or_else(|| error["code"].as_str()?.parse().ok());
        let inner = code.and_then(|code| StatusCode::from_u16(code.try_into().ok()?).ok());
        return Err(match inner.filter(|inner| !inner.is_success()) {
            Some(inner) => of_status(inner, headers, body),
            None => bad(format!("the response is an error: {}", message(body))),
        });
    }
    let usage = completion.usage.unwrap_or(Tokens { prompt_tokens: None, completion_tokens: None });
    let is_paid = usage.completion_tokens.is_some_and(|tokens| tokens > 0);
    let Some(choice) = completion.choices.unwrap_or_default().into_iter().next() else {
        return Err(bad("expected a choice, found none".to_string()));
    };
    let said = choice.message.unwrap_or(Said { content: None, refusal: None });
    let text = said.content.unwrap_or_default();
    let tokens_in = usage.prompt_tokens.unwrap_or_else(|| asked.div_ceil(4) as u64);
    let tokens_out = usage.completion_tokens.unwrap_or_else(|| text.len().div_ceil(4) as u64);
    let useless = |kind, message: String| {
        let error = CallError { kind, message, tokens_in, tokens_out };
        // Nobody pays twice for what a model said, useless or not.
        Failure { error, is_passing: kind == Kind::BadResponse && !is_paid, after: None }
    };
    match choice.finish_reason.as_deref() {
        Some("length") => Err(useless(Kind::TooLong, format!("the answer was cut off after {tokens_out} tokens"))),
        Some("content_filter") => Err(useless(Kind::Refused, "the endpoint's filter held the answer back".to_string())),
        _ if said.refusal.is_some() => {
            let refusal = quoted(said.refusal.as_deref().unwrap_or_default());
            Err(useless(Kind::Refused, format!("the model refused: {refusal}")))
        }
        _ if text.is_empty() => Err(useless(Kind::BadResponse, "expected a text, found none".to_string())),
        _ => Ok(Answer { text, tokens_in, tokens_out }),
    }
}

fn bad(message: String) -> Failure {
    Failure::passing(Kind::BadResponse, message)
}

fn of_status(status: StatusCode, headers: &HeaderMap, body: &str) -> Failure {
    let said = format!("{}: {}", status.as_u16(), message(body));
    match status.as_u16() {
        // The key goes where the setting points and nowhere else, so a redirect is not followed.
        300..400 => Failure::lasting(
            Kind::Denied,
            format!("{}: the endpoint redirects; set asap.anchor.base_url to where it is", status.as_u16()),
        ),
        // OpenAI's word for an account without money, which no wait fills.
        429 if body.contains("insufficient_quota") => Failure::lasting(Kind::Denied, said),
        429 => Failure { after: asked_for(headers), ..Failure::passing(Kind::RateLimited, said) },
        408 => Failure::passing(Kind::Timeout, said),
        401..=405 | 407 => Failure::lasting(Kind::Denied, said),
        400 | 413 | 422 if is_too_long(body) => Failure::lasting(Kind::TooLong, said),
        409 | 425 | 500.. => Failure { after: asked_for(headers), ..Failure::passing(Kind::Unavailable, said) },
        _ => Failure::lasting(Kind::Refused, said),
    }
}

fn is_too_long(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    TOO_LONG.iter().any(|words| body.contains(words))
}

fn asked_for(headers: &HeaderMap) -> Option<Duration> {
    retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, Utc::now())
}

/// What an error response says: its message, else its beginning.
fn message(body: &str) -> String {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let places = [&json["error"]["message"], &json["message"], &json["error"], &json["detail"]];
    quoted(places.iter().find_map(|place| place.as_str()).unwrap_or(body))
}

/// The beginning of a text, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for word in text.split_whitespace() {
        if quoted.chars().count() + word.chars().count() >= QUOTED {
            quoted.extend(word.chars().take(QUOTED.saturating_sub(quoted.chars().count())));
            quoted.push('…');
            break;
        }
        if !quoted.is_empty() {
            quoted.push(' ');
        }
        quoted.push_str(word);
    }
    if quoted.is_empty() { "(nothing)".to_string() } else { quoted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_ok(body: &Value) -> Result<Answer, Failure> {
        read(StatusCode::OK, &HeaderMap::new(), &body.to_string(), 40)
    }

    fn completion(content: Value, finish: &str) -> Value {
        json!({
            "choices": [{ "message": { "content": content }, "finish_reason": finish }],
            "usage": { "prompt_tokens": 7, "completion_tokens": 3 },
        })
    }

    #[test]
    fn an_answer_comes_with_its_tokens() {
        let answer = read_ok(&completion(json!("yes"), "stop")).unwrap();
        assert_eq!(answer, Answer { text: "yes".to_string(), tokens_in: 7, tokens_out: 3 });
        let without_usage = json!({ "choices": [{ "message": { "content": "hello" } }] });
        let answer = read_ok(&without_usage).unwrap();
        assert_eq!((answer.tokens_in, answer.tokens_out), (10, 2));
    }

    #[test]
    fn what_is_no_answer_says_why_and_whether_to_try_again() {
        let cases = [
            (completion(json!("ye"), "length"), Kind::TooLong, false, "cut off after 3 tokens"),
            (completion(json!("n"), "content_filter"), Kind::Refused, false, "filter"),
            (completion(Value::Null, "stop"), Kind::BadResponse, false, "found none"),
            (json!({ "choices": [{ "message": { "refusal": "I won't" } }] }), Kind::Refused, false, "I won't"),
            (json!({ "choices": [{ "message": { "content": null } }] }), Kind::BadResponse, true, "found none"),
            (json!({ "choices": [] }), Kind::BadResponse, true, "expected a choice"),
            (json!({ "choices": "many" }), Kind::BadResponse, true, "expected a chat completion"),
            (json!({ "error": { "message": "overloaded" } }), Kind::BadResponse, true, "overloaded"),
            (json!({ "error": { "message": "slow", "code": 429 } }), Kind::RateLimited, true, "429: slow"),
            (json!({ "error": { "message": "key", "code": "401" } }), Kind::Denied, false, "401: key"),
        ];
        for (body, kind, is_passing, words) in cases {
            let failure = read_ok(&body).unwrap_err();
            assert_eq!((failure.error.kind, failure.is_passing), (kind, is_passing), "{body}");
            assert!(failure.error.message.contains(words), "{failure:?}");
        }
        let paid = read_ok(&completion(Value::Null, "stop")).unwrap_err().error;
        assert_eq!((paid.tokens_in, paid.tokens_out), (7, 3));
    }

    #[test]
    fn a_status_says_whether_to_try_again() {
        let window = "This model's maximum context length is 8192 tokens. However, you requested 13000 tokens.";
        let cases = [
            (429, "", Kind::RateLimited, true),
            (429, "insufficient_quota", Kind::Denied, false),
            (500, "", Kind::Unavailable, true),
            (529, "", Kind::Unavailable, true),
            (408, "", Kind::Timeout, true),
            (401, "", Kind::Denied, false),
            (402, "", Kind::Denied, false),
            (404, "", Kind::Denied, false),
            (400, "", Kind::Refused, false),
            (400, window, Kind::TooLong, false),
            (418, "", Kind::Refused, false),
        ];
        for (status, body, kind, is_passing) in cases {
            let status = StatusCode::from_u16(status).unwrap();
            let failure = read(status, &HeaderMap::new(), body, 1).unwrap_err();
            assert_eq!((failure.error.kind, failure.is_passing), (kind, is_passing), "{status} {body}");
        }
        let body = json!({ "error": { "message": window } }).to_string();
        let failure = read(StatusCode::BAD_REQUEST, &HeaderMap::new(), &body, 1).unwrap_err();
        assert_eq!(failure.error.message, format!("400: {window}"));
    }

    #[test]
    fn long_responses_are_quoted_in_part() {
        assert_eq!(quoted(" a\n b "), "a b");
        assert_eq!(quoted(&"é".repeat(9999)).chars().count(), QUOTED + 1);
        assert!(quoted(&"word ".repeat(9999)).chars().count() <= QUOTED + 1);
    }
}
