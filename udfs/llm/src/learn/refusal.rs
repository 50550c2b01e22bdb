//! Reads why an endpoint refused a request, and how it must be sent instead. Endpoints have no common codes for this, so
//! their words are read.

use asap_kernels::front_end::Setting;
use serde_json::{Map, Value};

use crate::learn::form::{COMPLETION_LIMIT, Forced, NO_TEMPERATURE, NO_TOP_P, Sent};
use crate::request::ChatRequest;

/// What to do with a refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Advice {
    Resend(Sent),
    /// The prompt leaves no room for an answer.
    TooLong,
    /// The endpoint refuses every request for this reason.
    RefusesAll(String),
}

/// Fields of an error with the endpoint's own words. Others may repeat the prompt.
const OWN: [&str; 11] =
    ["error", "errors", "message", "detail", "msg", "param", "loc", "code", "type", "metadata", "raw"];
/// Fields of an error that say in sentences why, and those around them. Others may repeat the prompt.
const REASONS: [&str; 15] = [
    "message",
    "msg",
    "error",
    "detail",
    "errors",
    "details",
    "reason",
    "reasons",
    "description",
    "error_description",
    "metadata",
    "raw",
    "innererror",
    "cause",
    "upstream_error",
];
/// Words of endpoints for a prompt that does not fit into the model's window, along with those that name its size.
const TOO_LONG: &str = "context_length_exceeded|context length|context window|context size|maximum context|max_model_len|\
    context limit|is too long|input too long|prompt too long|string too long|too many tokens|token count|input length|\
    length of input|prompt length|`inputs` must have|prompt exceeds|exceed max message tokens";
/// Names of the limit on an answer. A proxy uses the names of the server after it.
const LIMITS: &str = "max_tokens|max_completion_tokens|max_new_tokens|max_output_tokens|maxoutputtokens|maximum tokens";
/// Words before the size of the window, such as `maximum context length is 2048` and `context limit: 9 + 8 > 16`.
const WINDOWS: &str = "context length|context window|context size|model length|max_model_len|max_seq_len|tokens` must be <=|\
    context limit|sequence length|maximum input length|maximum prompt length|model token limit|total tokens limit|\
    while limit is|(tpm): limit|session_len|max_num_tokens";
/// Words right before the sum of prompt and limit.
const SUMS: [&str; 3] = ["requested ", "requested: ", "current length is "];
/// Words for a limit that is too high.
const TOO_HIGH: &str =
    "too large|too high|too big|greater than|less than|at most|exceed|maximum|range|must be <|>|between|up to";
/// Words for a field, or for a value of a field, that is not accepted.
const NOT_ACCEPTED: &str = "unsupported|not support|n't support|not permitted|not allowed|n't allow|is allowed|unrecognized|unknown|unexpected|extra_forbidden|deprecated|removed|only the default|must be|must not|cannot|can't|invalid|should be|not available|range|\
    not accept|n't accept|not applicable|not valid|only support|minimum";
/// The words before a number of tokens that is only a bound: the endpoint did not count the whole prompt.
const NOT_EXACT: &str = "at least";
/// How far the size of a window may be from the words for it.
const NEAR: usize = 32;
/// A smaller limit is not worth another try.
const FEW: u32 = 16;

/// Returns the endpoint's own words of an error, in lower case.
pub(crate) fn own_words(error: &Value) -> String {
    match error {
        // A proxy may wrap the error of the server after it.
        Value::String(text) => match text.starts_with('{').then(|| serde_json::from_str::<Value>(text)) {
            Some(Ok(inner)) => own_words(&inner),
            _ if text.bytes().all(|byte| byte.is_ascii_digit()) => String::new(),
            _ => text.to_lowercase() + " ",
        },
        Value::Array(all) => all.iter().map(own_words).collect(),
        Value::Object(fields) => OWN.iter().filter_map(|name| fields.get(*name)).map(own_words).collect(),
        _ => String::new(),
    }
}

/// Returns the sentences of an error, the outer ones first; None if it has none. A gateway says only that its provider
/// failed, and quotes the provider's words further inside.
pub(crate) fn reasons(error: &Value) -> Option<String> {
    let (mut said, mut level) = (Vec::<String>::new(), vec![error.clone()]);
    while !level.is_empty() {
        let mut inner = Vec::new();
        for value in level {
            match value {
                Value::String(text) => match nested(&text) {
                    Some(quoted) => inner.push(quoted),
                    None if said.iter().any(|known| known.contains(text.trim())) => {}
                    None => said.push(text.trim().to_string()),
                },
                Value::Array(all) => inner.extend(all),
                Value::Object(mut fields) => match misplaced(&fields) {
                    Some(what) => inner.push(what.into()),
                    None => inner.extend(REASONS.iter().filter_map(|name| fields.remove(*name))),
                },
                _ => {}
            }
        }
        level = inner;
    }
    said.retain(|text| !text.is_empty());
    let last = said.pop()?;
    let outer = said.iter().map(|text| format!("{}: ", text.trim_end_matches(['.', ':'])));
    Some(outer.chain([last]).collect())
}

/// Returns what FastAPI says of a field, with the place of the field.
fn misplaced(fields: &Map<String, Value>) -> Option<String> {
    let place =
        fields.get("loc")?.as_array()?.iter().map(|part| part.as_str().map_or(part.to_string(), str::to_string));
    Some(format!("{}: {}", place.collect::<Vec<_>>().join("."), fields.get("msg")?.as_str()?))
}

/// Returns the error that a text quotes as JSON.
fn nested(text: &str) -> Option<Value> {
    let text = text.trim();
    text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten()
}

/// Whether the words are about a prompt that does not fit into the window, perhaps only with its limit.
pub(crate) fn is_too_long(words: &str) -> bool {
    says(words, TOO_LONG) || window(words).is_some()
}

/// Whether the endpoint's list of models may say what these words do not: the window, or whether the prompt fits it.
pub(crate) fn needs_list(words: &str) -> bool {
    window(words).is_none() || words.contains(NOT_EXACT)
}

/// Returns what to do with a request that was refused in these words; None if the request itself is the reason.
/// `is_too_long` says that the words are about the window, and `listed` is the window by the list of models.
pub(crate) fn advice(
    words: &str,
    is_too_long: bool,
    request: &ChatRequest,
    sent: Sent,
    forced: Forced,
    listed: Option<u64>,
) -> Option<Advice> {
    if is_too_long || says(words, LIMITS) && says(words, TOO_HIGH) {
        let shorter = shorter(words, request, sent, forced, listed);
        if shorter.is_some() || is_too_long {
            return shorter;
        }
    }
    let Sent { mut form, tokens } = sent;
    let has = |names: &[&str]| {
        let mut parts = words.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
        parts.any(|part| names.contains(&part.trim_matches('-')))
    };
    if !request.stop.is_empty() && says(words, NOT_ACCEPTED) && has(&["stop"]) {
        return Some(Advice::RefusesAll("the texts of --stop, which no setting leaves out".to_string()));
    }
    let is_sent = |change: usize| !form.changes[change];
    let limit = if is_sent(COMPLETION_LIMIT) { "max_tokens" } else { "max_completion_tokens" };
    // Some endpoints accept only one of temperature and top_p; a top_p of 1 changes nothing.
    let (change, forces) = match says(words, NOT_ACCEPTED) {
        is_refused if (is_refused || words.contains("instead")) && tokens.is_some() && has(&[limit]) => {
            (COMPLETION_LIMIT, format!("the limit that {} names", Setting("asap.anchor.send_max_completion_tokens")))
        }
        true if is_sent(NO_TOP_P) && has(&["top_p", "top-p", "topp"]) => {
            (NO_TOP_P, format!("top_p, which {} = true sends", Setting("asap.anchor.send_top_p")))
        }
        true if is_sent(NO_TEMPERATURE) && has(&["temperature"]) => {
            (NO_TEMPERATURE, format!("the temperature, which {} = true sends", Setting("asap.anchor.send_temperature")))
        }
        _ => return None,
    };
    if forced.changes[change].is_some() {
        return Some(Advice::RefusesAll(forces));
    }
    if !is_sent(change) {
        return Some(Advice::RefusesAll("max_tokens and max_completion_tokens".to_string()));
    }
    form.changes[change] = true;
    Some(Advice::Resend(Sent { form, tokens }))
}

/// Returns the request with a limit that fits; None if the words do not say what fits.
fn shorter(words: &str, request: &ChatRequest, sent: Sent, forced: Forced, listed: Option<u64>) -> Option<Advice> {
    let Sent { mut form, tokens: Some(tokens) } = sent else { return None };
    let (limit, said, all) = (u64::from(tokens), window(words), numbers(words));
    // A maximum that is refused again is the window, which prompt and answer share.
    let known = form.window.or(form.most.map(u64::from).filter(|most| *most == limit));
    let known = known.filter(|known| all.contains(known));
    let Some(window) = forced.window.or(said).or(known).or(listed) else {
        // Words about the prompt alone name no limit.
        let most =
            all.into_iter().filter(|number| says(words, LIMITS) && (FEW.into()..limit).contains(number)).max()?;
        form.most = u32::try_from(most - u64::from(words.contains("exclusive"))).ok();
        return Some(Advice::Resend(Sent { form, tokens: form.most }));
    };
    form.window = Some(window);
    form.most = form.most.filter(|most| u64::from(*most) != window);
    // The words name the prompt's tokens, perhaps with their sum with the limit.
    let summed = all.iter().copied().find(|number| all.contains(&(number + limit)));
    let others = all.iter().copied().filter(|number| ![Some(window), said, Some(limit)].contains(&Some(*number)));
    let is_sum = |number: u64| number > limit && SUMS.iter().any(|sum| words.contains(&format!("{sum}{number}")));
    let prompt = summed.or_else(|| others.max().map(|number| if is_sum(number) { number - limit } else { number }));
    if prompt.is_some_and(|prompt| prompt >= window) {
        return Some(Advice::TooLong);
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
    Some(Advice::Resend(Sent { form, tokens }))
}

/// Returns the number after the words for a window. What is needed comes before what there is.
fn window(words: &str) -> Option<u64> {
    let near = |phrase: &str, after: &str| {
        let after =
            if phrase == "context limit" { after.split_once('>').map_or(after, |(_, above)| above) } else { after };
        numbers(&after.chars().take(NEAR).collect::<String>()).first().copied()
    };
    WINDOWS.split('|').find_map(|phrase| words.split(phrase).skip(1).filter_map(|after| near(phrase, after)).last())
}

fn says(words: &str, any_of: &str) -> bool {
    any_of.split('|').any(|phrase| words.contains(phrase))
}

/// Returns the whole numbers in a text, without parts of names, versions and fractions.
fn numbers(text: &str) -> Vec<u64> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && !"_.,-".contains(c));
    let parts = parts.map(|part| part.trim_matches(['.', ',', '-'])).flat_map(|part| {
        let is_grouped = part.split(',').skip(1).all(|group| group.len() == 3);
        if is_grouped { vec![part.replace(',', "")] } else { part.split(',').map(str::to_string).collect() }
    });
    parts.filter_map(|part| part.strip_suffix(".0").unwrap_or(&part).parse().ok()).collect()
}
