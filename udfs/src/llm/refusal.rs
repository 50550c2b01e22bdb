//! Reads why an endpoint refused a request, and how it must be sent instead. Endpoints have no common error codes for
//! this, so their words are read.

use serde_json::Value;

use super::form::{Forced, Sent};
use super::request::ChatRequest;
use crate::settings::LimitField;

/// What to do with a refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Advice {
    /// Send it again in this way.
    Resend(Sent),
    /// The endpoint refuses every request for this reason.
    RefusesAll(String),
}

/// Fields of an error with the endpoint's own words. Others may repeat the prompt.
const OWN: [&str; 10] = ["error", "message", "detail", "msg", "param", "loc", "code", "type", "metadata", "raw"];
/// Names of the limit on an answer. Servers that pass requests on use the name of the server after them.
const LIMITS: [&str; 4] = ["max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens"];
/// Words before the size of the window. `maximum context length is 2048 tokens`, `max_model_len=2048`.
const WINDOWS: [&str; 8] = [
    "context length",
    "context window",
    "context size",
    "model length",
    "max_model_len",
    "max_seq_len",
    "tokens` must be <=",
    "context limit",
];
/// Words for a limit that is too high.
const TOO_HIGH: [&str; 13] = [
    "too large",
    "too high",
    "too big",
    "greater than",
    "less than",
    "at most",
    "exceed",
    "maximum",
    "range",
    "must be <",
    ">",
    "between",
    "up to",
];
/// Words for a field, or for a value of a field, that is not accepted.
const NOT_ACCEPTED: [&str; 22] = [
    "unsupported",
    "not support",
    "n't support",
    "not permitted",
    "not allowed",
    "n't allow",
    "is allowed",
    "unrecognized",
    "unknown",
    "unexpected",
    "extra_forbidden",
    "deprecated",
    "removed",
    "only the default",
    "must be",
    "must not",
    "cannot",
    "can't",
    "invalid",
    "should be",
    "not available",
    "range",
];
/// The words before a number of tokens that is only a bound: the endpoint did not count the whole prompt.
const NOT_EXACT: &str = "at least";
/// How far the size of a window may be from the words for it, in bytes.
const NEAR: usize = 32;
/// A limit below this many tokens is not worth another try.
const FEW: u32 = 16;

/// Returns the endpoint's own words of an error, in lower case.
pub(super) fn own_words(error: &Value) -> String {
    let mut words = String::new();
    gather(error, &mut words);
    words.make_ascii_lowercase();
    words
}

fn gather(found: &Value, words: &mut String) {
    match found {
        // An endpoint that passes requests on may wrap the error of the server after it.
        Value::String(text) => match text.starts_with('{').then(|| serde_json::from_str::<Value>(text)) {
            Some(Ok(inner)) => gather(&inner, words),
            _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {}
            _ => *words += &format!("{text} "),
        },
        Value::Array(all) => all.iter().for_each(|each| gather(each, words)),
        Value::Object(fields) => OWN.iter().filter_map(|name| fields.get(*name)).for_each(|each| gather(each, words)),
        _ => {}
    }
}

/// Whether the endpoint's list of models may say what these words do not: the window, or that the prompt fits it.
pub(super) fn needs_list(words: &str) -> bool {
    window(words, &numbers(words)).is_none() || words.contains(NOT_EXACT)
}

/// Returns what to do with a request that was refused in these words; None if the request itself is the reason.
/// `is_too_long` says that the words are about the window, and `listed` is the window by the list of models.
pub(super) fn advice(
    words: &str,
    is_too_long: bool,
    request: &ChatRequest,
    sent: Sent,
    forced: Forced,
    listed: Option<u64>,
) -> Option<Advice> {
    let says = |any_of: &[&str]| any_of.iter().any(|word| words.contains(word));
    if is_too_long || says(&LIMITS) && says(&TOO_HIGH) {
        let shorter = shorter(words, request, sent, forced, listed);
        if shorter.is_some() || is_too_long {
            return shorter.map(Advice::Resend);
        }
    }
    if !says(&NOT_ACCEPTED) {
        return None;
    }
    let mut next = sent;
    let Sent { form, tokens } = &mut next;
    let refuses = |what: &str| Some(Advice::RefusesAll(what.to_string()));
    let has = |names: &[&str]| names.iter().any(|name| has_word(words, name));
    if tokens.is_some() && has(&[form.limit.name()]) {
        match (forced.limit, form.limit) {
            (Some(field), _) => return refuses(&format!("{}, the value of asap.anchor.limit_field", field.name())),
            (None, LimitField::MaxCompletionTokens) => return refuses("max_tokens and max_completion_tokens"),
            (None, LimitField::MaxTokens) => form.limit = LimitField::MaxCompletionTokens,
        }
    } else if !form.defaults.top_p && has(&["top_p", "top-p", "topp"]) {
        // Some accept only one of top_p and temperature; a top_p of 1 changes nothing.
        if forced.top_p == Some(true) {
            return refuses("top_p, which asap.anchor.send_top_p = true sends");
        }
        form.defaults.top_p = true;
    } else if !form.defaults.temperature && has(&["temperature"]) {
        if forced.temperature == Some(true) {
            return refuses("the temperature, which asap.anchor.send_temperature = true sends");
        }
        form.defaults.temperature = true;
    } else {
        return None;
    }
    Some(Advice::Resend(next))
}

/// Returns the request with a limit that fits; None if no answer fits, or if the words do not say what fits.
fn shorter(words: &str, request: &ChatRequest, sent: Sent, forced: Forced, listed: Option<u64>) -> Option<Sent> {
    let Sent { mut form, tokens: Some(tokens) } = sent else { return None };
    let (limit, numbers) = (u64::from(tokens), numbers(words));
    let said = window(words, &numbers);
    let all: Vec<u64> = numbers.into_iter().map(|(_, number)| number).collect();
    let Some(window) = forced.window.or(said).or(listed) else {
        let most = all.into_iter().filter(|number| (FEW.into()..limit).contains(number)).max()?;
        form.most = u32::try_from(most).ok();
        return Some(Sent { form, tokens: form.most });
    };
    form.window = Some(window);
    // The words name the prompt's tokens, perhaps with their sum with the limit.
    let summed = all.iter().copied().find(|number| all.contains(&(number + limit)));
    let others = all.iter().copied().filter(|number| ![Some(window), said, Some(limit)].contains(&Some(*number)));
    let prompt = summed.or_else(|| others.max());
    if prompt.is_some_and(|prompt| prompt >= window) {
        return None;
    }
    let room =
        |prompt: u64| u32::try_from(window.saturating_sub(prompt)).ok().filter(|room| (1..tokens).contains(room));
    let tokens = match prompt.filter(|_| !words.contains(NOT_EXACT)) {
        Some(prompt) => Some(room(prompt)?),
        None if limit >= window => Some(room(1)?),
        // A server that lists its window ends an answer without a limit there.
        None if listed.is_some() => None,
        None => Some(room(request.bytes() as u64 / 4).unwrap_or(tokens / 2)).filter(|room| *room >= FEW).map(Some)?,
    };
    Some(Sent { form, tokens })
}

/// Returns the number after the words for a window.
fn window(words: &str, numbers: &[(usize, u64)]) -> Option<u64> {
    let after = |phrase: &&str| {
        let mut from = words.find(*phrase)? + phrase.len();
        let mut until = from + NEAR;
        // `context limit: 188240 + 21333 > 200000`
        if *phrase == "context limit"
            && let Some(above) = words[from..].find('>')
        {
            (from, until) = (from + above, from + above + NEAR);
        }
        numbers.iter().find(|(at, _)| (from..until).contains(at)).map(|(_, number)| *number)
    };
    WINDOWS.iter().find_map(after)
}

/// Whether a name is in these words, and not only as a part of a longer name.
fn has_word(words: &str, name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    words
        .match_indices(name)
        .any(|(at, _)| !words[..at].ends_with(is_inner) && !words[at + name.len()..].starts_with(is_inner))
}

/// Returns the whole numbers in a text with their places. Parts of names, versions and fractions are left out.
fn numbers(text: &str) -> Vec<(usize, u64)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let begin = at;
        at += digits(at);
        while at - begin <= 15 && bytes.get(at) == Some(&b',') && digits(at + 1) == 3 {
            at += 4;
        }
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_joined = |byte: u8| is_inner(byte) || byte == b'-' || byte == b'.';
        let before = begin.checked_sub(1).is_some_and(|before| is_joined(bytes[before]));
        let after = bytes.get(at).is_some_and(|byte| is_inner(*byte))
            || bytes.get(at).is_some_and(|byte| b".-".contains(byte)) && digits((at + 1).min(bytes.len())) > 0;
        if !before && !after {
            found.extend(text[begin..at].replace(',', "").parse().ok().map(|number| (begin, number)));
        } else {
            // The rest of a name.
            at += bytes[at..].iter().take_while(|byte| is_joined(**byte)).count();
        }
    }
    found
}
