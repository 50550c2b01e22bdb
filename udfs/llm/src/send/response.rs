//! Interprets an endpoint's response.

use std::time::Duration;

use asap_kernels::health::End;
use chrono::Utc;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::chat::{Answer, CallError, ChatResponse, FailureKind, Received, Unread};
use crate::learn::refusal;
use crate::send::json;
use crate::send::openai::{self, Choice, Completion};
use crate::send::retry::retry_after;
use crate::send::stream::{self, Found};

const QUOTED: usize = 300;
/// Words of endpoints that reject a prompt for its content, not for its sender.
const HELD_BACK: &str = "input was flagged|content_filter|content filter|content_policy|content policy";
const INSPECTED: &str = "content management policy|inappropriate content|content exists risk|\
    considered high risk|safety system";
/// Words of endpoints that reject the account or the key, under any status.
const NO_ACCOUNT: &str = "insufficient_quota|exceeded_current_quota|credit balance|insufficient balance|arrearage|\
    api key not valid|api key expired|invalid api key|incorrect api key|invalid_api_key|api_key_invalid|\
    account is not active";
/// Also such a word, but endpoints use it for a mere pause (429) too.
const BILLING: &str = "billing";

#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    pub error: CallError,
    pub is_passing: bool,
    pub after: Option<Duration>,
    /// Why the endpoint refused the request, in its own words, if it may accept another form.
    pub refusal: Option<String>,
}

impl Failure {
    pub(crate) fn of(error: CallError) -> Self {
        Self { error, is_passing: false, after: None, refusal: None }
    }

    pub(crate) fn lasting(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::of(CallError::new(kind, message))
    }

    pub(crate) fn passing(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { is_passing: true, ..Self::lasting(kind, message) }
    }
}

/// Returns the answer in a response, or the failure. `asked` is the prompt's length in bytes: without token counts in
/// the response, one token per four bytes is assumed. With `whole`, the seconds of the call, the answer is the whole
/// response. `redact` removes what must not be shown.
pub(crate) fn read(
    status: StatusCode,
    headers: &HeaderMap,
    body: &str,
    asked: usize,
    whole: Option<f64>,
    redact: &dyn Fn(String) -> String,
) -> Result<Answer, Failure> {
    let response = Body { headers, text: body, redact };
    if !status.is_success() {
        return Err(response.of_status(status));
    }
    let completion: Value = match json::parse(body) {
        Ok(completion) => completion,
        Err(error) => match stream::message(body) {
            Found::Message(joined) => joined,
            // What was streamed is paid, and would be streamed again.
            Found::Unknown => {
                let message =
                    format!("expected a chat completion, found a stream without one: {}", response.quoted(body));
                return Err(Failure::lasting(FailureKind::BadResponse, message));
            }
            Found::NoStream => {
                return Err(bad(format!("expected a chat completion, found {} ({error})", response.quoted(body))));
            }
        },
    };
    let error = openai::error_of(&completion);
    if !error.is_null() {
        return Err(response.of_error(error));
    }
    let Completion { tokens: [paid_in, paid_out], model, answer } = openai::read(&completion);
    let answer = answer.map(|choice| Choice {
        text: choice.text.map(redact),
        reasoning: choice.reasoning.map(redact),
        ..choice
    });
    let text = answer.as_ref().and_then(|choice| choice.text.as_ref());
    let tokens_in = paid_in.unwrap_or_else(|| asked.div_ceil(4) as u64);
    let tokens_out = paid_out.unwrap_or_else(|| text.map_or(0, |text| text.len().div_ceil(4) as u64));
    let useless = |kind, message: String| {
        let error = CallError { tokens_in, tokens_out, ..CallError::new(kind, message) };
        // A paid answer is not requested again, useful or not, unless the endpoint broke it off.
        let is_passing =
            kind == FailureKind::Unavailable || kind == FailureKind::BadResponse && paid_out.unwrap_or(0) == 0;
        Failure { is_passing, ..Failure::of(error) }
    };
    let none = |expected: &str| {
        useless(FailureKind::BadResponse, format!("expected {expected}, found none: {}", response.quoted(body)))
    };
    let Some(choice) = answer else { return Err(none("a choice in the response")) };
    match (&choice.end, whole) {
        (End::Limit, None) => {
            Err(useless(FailureKind::TooLong, format!("the answer was cut off after {tokens_out} tokens")))
        }
        (End::Withheld | End::Fault, _) => {
            let (kind, who) = match choice.end {
                End::Fault => (FailureKind::Unavailable, "the endpoint broke off the answer"),
                _ => (FailureKind::Refused, "the model or the endpoint's filter withheld the answer"),
            };
            Err(useless(kind, format!("{who}: {}", response.quoted(choice.said.as_deref().unwrap_or_default()))))
        }
        (_, Some(seconds)) => {
            let found = whole_response(choice, [paid_in, paid_out], model, seconds).ok_or_else(|| none("a text"))?;
            found.answer(tokens_in, tokens_out).map_err(|error| useless(error.kind, error.message))
        }
        (End::Finished, None) => {
            let expected = match &choice.reasoning {
                Some(_) => "an answer next to the thought (check the reasoning parser of the server)",
                None => "a text",
            };
            let text = choice.text.filter(|text| !text.is_empty()).ok_or_else(|| none(expected))?;
            Ok(Answer { text, tokens_in, tokens_out, ..Answer::default() })
        }
    }
}

/// Returns the whole response; None if it has no text and was not cut off.
fn whole_response(
    Choice { text, reasoning, finish_reason, .. }: Choice,
    [prompt_tokens, completion_tokens]: [Option<u64>; 2],
    model: Option<String>,
    seconds: f64,
) -> Option<ChatResponse> {
    let found = ChatResponse {
        reasoning,
        content: text.unwrap_or_default(),
        opens_thought: false,
        finish_reason,
        prompt_tokens,
        completion_tokens,
        model,
        seconds,
        cached: false,
    };
    let is_empty = found.content.is_empty() && found.reasoning.is_none() && !found.is_cut_off();
    (!is_empty).then_some(found)
}

/// Reads a response that is no chat completion; else as [`read`].
pub(crate) fn read_with<T>(
    Received { status, headers, text }: &Received,
    redact: &dyn Fn(String) -> String,
    read: impl Fn(&str) -> Result<T, Unread>,
) -> Result<T, Failure> {
    let body = Body { headers, text, redact };
    if !status.is_success() {
        return Err(body.of_status(*status));
    }
    read(text).map_err(|unread| match (openai::error_of(&body.json()), unread) {
        (Value::Null, Unread::Garbled(why)) => bad(format!("{why}; it is {}", body.quoted(text))),
        (Value::Null, Unread::Wrong(why)) => Failure::lasting(FailureKind::Denied, why),
        (error, _) => body.of_error(error),
    })
}

struct Body<'a> {
    headers: &'a HeaderMap,
    text: &'a str,
    redact: &'a dyn Fn(String) -> String,
}

impl Body<'_> {
    /// Returns the failure of an error in a response with a success status.
    fn of_error(&self, error: &Value) -> Failure {
        let code = error["code"].as_u64().or_else(|| error["code"].as_str()?.parse().ok());
        let inner = code.and_then(|code| StatusCode::from_u16(code.try_into().ok()?).ok());
        let inner = inner.filter(|inner| !inner.is_success());
        match self.of_status(inner.unwrap_or(StatusCode::BAD_REQUEST)) {
            // Without a code, an error passes unless its words say another thing.
            Failure { error: CallError { is_general: true, .. }, refusal, .. } if inner.is_none() => {
                Failure { refusal, ..bad(format!("the response is an error: {}", self.message())) }
            }
            failure => failure,
        }
    }

    fn of_status(&self, status: StatusCode) -> Failure {
        let (headers, body) = (self.headers, self.text);
        let said = format!("{}: {}", status.as_u16(), self.message());
        let words = refusal::own_words(&match self.json() {
            Value::Null => self.text.into(),
            json => json,
        });
        let is_of_account = says(&words, NO_ACCOUNT) || status.as_u16() != 429 && says(&words, BILLING);
        let of_form = |failure| Failure { refusal: Some(words.clone()), ..failure };
        match status.as_u16() {
            // The key must go only to the address in the setting, so a redirect is not followed.
            300..400 => Failure::lasting(
                FailureKind::Denied,
                format!("{}: the endpoint redirects; set its base_url to the new address", status.as_u16()),
            ),
            429 if is_of_account => Failure::lasting(FailureKind::Denied, said),
            429 => Failure { after: asked_for(headers), ..Failure::passing(FailureKind::RateLimited, said) },
            408 => Failure::passing(FailureKind::Timeout, said),
            400 | 403 | 422 if refusal::is_too_long(&words) => of_form(Failure::lasting(FailureKind::TooLong, said)),
            413 => of_form(Failure::lasting(FailureKind::TooLong, said)),
            403 if says(body, HELD_BACK) => Failure::lasting(FailureKind::Refused, said),
            400.. if status.is_client_error() && is_of_account => Failure::lasting(FailureKind::Denied, said),
            401..=405 | 407 | 410 => Failure::lasting(FailureKind::Denied, said),
            // llama-cpp-python has this status also for a request that it cannot read.
            409 | 425 | 500.. if !words.contains("('body',") => {
                Failure { after: asked_for(headers), ..Failure::passing(FailureKind::Unavailable, said) }
            }
            _ => {
                let mut refused = Failure::lasting(FailureKind::Refused, said);
                refused.error.is_general = !says(body, HELD_BACK) && !says(body, INSPECTED);
                if refused.error.is_general { of_form(refused) } else { refused }
            }
        }
    }

    /// Returns the error; Null if it is not JSON. Gemini wraps it in a list.
    fn json(&self) -> Value {
        let json = json::parse(self.text).unwrap_or_else(|_| match stream::message(self.text) {
            Found::Message(joined) => joined,
            Found::Unknown | Found::NoStream => Value::Null,
        });
        match json {
            Value::Array(mut errors) if !errors.is_empty() => errors.swap_remove(0),
            json => json,
        }
    }

    fn message(&self) -> String {
        self.quoted(refusal::reasons(&self.json()).as_deref().unwrap_or(self.text))
    }

    /// Returns the beginning of a text, on one line. Secrets are removed before the text is cut.
    fn quoted(&self, text: &str) -> String {
        quoted(&(self.redact)(text.to_string()))
    }
}

fn bad(message: String) -> Failure {
    Failure::passing(FailureKind::BadResponse, message)
}

fn says(body: &str, any_of: &str) -> bool {
    let body = body.to_ascii_lowercase();
    any_of.split('|').any(|words| body.contains(words))
}

fn asked_for(headers: &HeaderMap) -> Option<Duration> {
    let pause = |name: &str| retry_after(headers.get(name)?.to_str().ok()?, Utc::now());
    pause("retry-after-ms").map(|pause| pause / 1000).or_else(|| pause(RETRY_AFTER.as_str()))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for word in text.split_whitespace() {
        if !quoted.is_empty() {
            quoted.push(' ');
        }
        if quoted.chars().count() + word.chars().count() >= QUOTED {
            quoted.extend(word.chars().take(QUOTED.saturating_sub(quoted.chars().count())));
            quoted.push('…');
            break;
        }
        quoted.push_str(word);
    }
    if quoted.is_empty() { "(nothing)".to_string() } else { quoted.chars().map(shown).collect() }
}

/// Returns a character that no terminal obeys: the picture of a control character.
fn shown(c: char) -> char {
    match u32::from(c) {
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or(char::REPLACEMENT_CHARACTER),
        0x7f => '\u{2421}',
        _ if c.is_control() => char::REPLACEMENT_CHARACTER,
        _ => c,
    }
}

#[cfg(test)]
mod tests;
