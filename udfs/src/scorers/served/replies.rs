//! What each kind of server is asked for a row of token ids, and what its reply says.

use std::collections::HashMap;

use asap_kernels::front_end::Setting;
use asap_llm::json;
use asap_llm::posts::Unread;
use asap_lm::Tokenizer;
use asap_lm::backend::TokenScore;
use serde::Deserialize;
use serde_json::{Value, json};

/// vLLM writes −∞ as this number.
const MINUS_INFINITY: f64 = -9999.0;
/// Rounding errors of log-probabilities.
const SLACK: f64 = 1e-3;
/// Tokens per position of the proof that values are log-probabilities: the probabilities of some tokens sum to at most 1.
const TOP: usize = 5;

/// How a server returns log-probabilities of given tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// vLLM: `/completions` with `prompt_logprobs`.
    PromptLogprobs,
    /// SGLang: `/generate` with `logprob_start_len`.
    Generate,
    /// `/completions` with token ids and `echo`, whose reply names ids.
    EchoIds,
    /// `/completions` with a text and `echo`, whose reply names texts of tokens.
    EchoTexts,
}

impl Form {
    pub(super) const ALL: [Self; 4] = [Self::PromptLogprobs, Self::Generate, Self::EchoIds, Self::EchoTexts];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PromptLogprobs => "prompt_logprobs",
            Self::Generate => "/generate",
            Self::EchoIds => "echo with token ids",
            Self::EchoTexts => "echo with text",
        }
    }
}

/// A row as it is asked: its ids, the first position whose value is needed (at least 1), and whether the reply must also
/// prove that the server is the right one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub ids: &'a [u32],
    pub from: usize,
    pub is_probe: bool,
}

/// Returns the body of a request; None if the server takes text, and the ids are not those of a text.
pub(super) fn body(form: Form, model: &str, asked: Asked, tokenizer: &Tokenizer) -> Option<Value> {
    let Asked { ids, from, is_probe } = asked;
    let echo = |prompt: Value, most: usize, least: usize| {
        json!({ "model": model, "prompt": prompt, "echo": true, "max_tokens": most, "temperature": 0,
            "logprobs": if is_probe { TOP } else { least }, "stream": false })
    };
    Some(match form {
        Form::PromptLogprobs => json!({ "model": model, "prompt": ids, "max_tokens": 1, "temperature": 0,
            "prompt_logprobs": if is_probe { TOP } else { 0 }, "return_token_ids": true,
            "stream": false }),
        Form::Generate => json!({ "input_ids": ids, "sampling_params": { "max_new_tokens": 0, "temperature": 0 },
            "return_logprob": true, "logprob_start_len": from - 1, "top_logprobs_num": if is_probe { TOP } else { 0 },
            "return_text_in_logprobs": is_probe, "stream": false }),
        Form::EchoIds => {
            let mut body = echo(json!(ids), 0, 0);
            body["return_tokens_as_token_ids"] = json!(true);
            body["return_token_ids"] = json!(true);
            body
        }
        Form::EchoTexts => {
            let text = tokenizer.text(ids).ok()?;
            let read = tokenizer.encode(&text, false).ok()?.ids;
            (read == ids).then(|| echo(json!(text), 1, 1))?
        }
    })
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    prompt_logprobs: Option<Vec<Option<HashMap<u32, Entry>>>>,
    prompt_token_ids: Option<Vec<u32>>,
    logprobs: Option<Echoed>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    logprob: Option<f64>,
    rank: Option<f64>,
    decoded_token: Option<String>,
}

#[derive(Deserialize)]
struct Echoed {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Option<Vec<Option<HashMap<String, f64>>>>,
}

#[derive(Deserialize)]
struct Generated {
    meta_info: MetaInfo,
}

type Triple = (Option<f64>, u32, Option<String>);

#[derive(Deserialize)]
struct MetaInfo {
    input_token_logprobs: Vec<Triple>,
    input_top_logprobs: Option<Vec<Option<Vec<Triple>>>>,
}

fn garbled(what: impl Into<String>) -> Unread {
    Unread::Garbled(format!("expected log-probabilities of the tokens that were sent, found {}", what.into()))
}

fn logits(found: &str) -> Unread {
    Unread::Wrong(format!(
        "expected log-probabilities, found {found}: these are logits or processed values (start vLLM without \
         --logprobs-mode, or with raw_logprobs)"
    ))
}

/// Returns the scores of each token of a row; NaN for tokens before `from`. Only [`Form::PromptLogprobs`] has ranks.
pub(super) fn read(form: Form, text: &str, asked: Asked, tokenizer: &Tokenizer) -> Result<Vec<TokenScore>, Unread> {
    let parsed = |error: serde_json::Error| garbled(error.to_string());
    if form == Form::Generate {
        return generated(json::parse::<Generated>(text).map_err(parsed)?.meta_info, asked, tokenizer);
    }
    let choice = json::parse::<Completion>(text).map_err(parsed)?.choices.into_iter().next();
    let choice = choice.ok_or_else(|| garbled("no choice"))?;
    if let Some(read) = &choice.prompt_token_ids
        && read != asked.ids
    {
        let what = format!("{} tokens were sent, and the server read {} others", asked.ids.len(), read.len());
        return Err(Unread::Wrong(what));
    }
    match form {
        Form::PromptLogprobs => prompt(choice, asked, tokenizer),
        Form::Generate | Form::EchoIds | Form::EchoTexts => echoed(form, choice, asked, tokenizer),
    }
}

/// Returns the likeliest tokens at a place of a probe, with their log-probabilities.
pub(super) fn likeliest(form: Form, text: &str, place: usize) -> Result<HashMap<String, f64>, Unread> {
    let reply: Value = json::parse(text).map_err(|error| garbled(error.to_string()))?;
    let choice = &reply["choices"][0];
    let tops = match form {
        Form::PromptLogprobs => &choice["prompt_logprobs"],
        Form::Generate => &reply["meta_info"]["input_top_logprobs"],
        Form::EchoIds | Form::EchoTexts => &choice["logprobs"]["top_logprobs"],
    };
    let value = |entry: &Value| entry.as_f64().or_else(|| entry["logprob"].as_f64());
    let found = match &tops[place] {
        Value::Array(top) => top.iter().map(|triple| Some((triple[1].to_string(), value(&triple[0])?))).collect(),
        Value::Object(top) => top.iter().map(|(token, entry)| Some((token.clone(), value(entry)?))).collect(),
        _ => None,
    };
    found.ok_or_else(|| garbled("no alternatives to the tokens"))
}

/// Returns the text that a server wrote after a prompt, without the prompt.
pub(super) fn written(text: &str) -> Result<String, Unread> {
    let completion: Completion = json::parse(text).map_err(|error| garbled(error.to_string()))?;
    let text = completion.choices.into_iter().next().and_then(|choice| choice.text);
    text.ok_or_else(|| Unread::Garbled("expected a text, found none".to_string()))
}

fn prompt(choice: Choice, asked: Asked, tokenizer: &Tokenizer) -> Result<Vec<TokenScore>, Unread> {
    let Asked { ids, from, is_probe } = asked;
    let places = choice.prompt_logprobs.ok_or_else(|| garbled("no prompt_logprobs"))?;
    if places.len() != ids.len() {
        return Err(garbled(format!("{} positions for {} tokens", places.len(), ids.len())));
    }
    let mut scores = vec![TokenScore::NONE; ids.len()];
    for (place, id) in ids.iter().enumerate().skip(from) {
        let own = places[place].as_ref().and_then(|entries| entries.get(id));
        let Some((entry, value)) = own.and_then(|entry| Some((entry, entry.logprob?))) else {
            return Err(garbled(format!("no value for token {id} at position {place}")));
        };
        scores[place] = score(value, entry.rank)?;
        if let Some(text) = entry.decoded_token.as_ref().filter(|_| is_probe) {
            same_text(*id, text, tokenizer)?;
        }
    }
    Ok(scores)
}

fn generated(found: MetaInfo, asked: Asked, tokenizer: &Tokenizer) -> Result<Vec<TokenScore>, Unread> {
    let Asked { ids, from, is_probe } = asked;
    let triples = found.input_token_logprobs;
    let Some(start) = ids.len().checked_sub(triples.len()).filter(|start| *start < from) else {
        return Err(garbled(format!("{} values for {} tokens", triples.len(), ids.len() - from)));
    };
    let mut scores = vec![TokenScore::NONE; ids.len()];
    for (place, (value, id, text)) in (start..).zip(triples) {
        if id != ids[place] {
            return Err(Unread::Wrong(format!("token {} was sent, and the server read {id}", ids[place])));
        }
        if let Some(text) = text.filter(|_| is_probe) {
            same_text(id, &text, tokenizer)?;
        }
        if place >= from {
            let value = value.ok_or_else(|| garbled(format!("no value for token {id} at position {place}")))?;
            scores[place] = score(value, None)?;
        }
    }
    if is_probe {
        let top = found.input_top_logprobs.ok_or_else(|| garbled("no input_top_logprobs"))?;
        let values = |top: Vec<Triple>| top.into_iter().filter_map(|(value, ..)| value).collect::<Vec<_>>();
        top.into_iter().flatten().try_for_each(|top| sums_to_one(&values(top)))?;
    }
    Ok(scores)
}

fn echoed(form: Form, choice: Choice, asked: Asked, tokenizer: &Tokenizer) -> Result<Vec<TokenScore>, Unread> {
    let Asked { ids, from, is_probe } = asked;
    let Echoed { tokens, token_logprobs, top_logprobs } = choice.logprobs.ok_or_else(|| garbled("no logprobs"))?;
    let is_same = |at: usize| match (form, tokens.get(at)) {
        (_, None) => false,
        (Form::EchoIds, Some(found)) => *found == format!("token_id:{}", ids[at]),
        (_, Some(found)) => tokenizer.text(&[ids[at]]).is_ok_and(|own| is_same(&own, found)),
    };
    let other = (0..ids.len()).find(|at| !is_same(*at));
    // Of a text, a server may read other tokens. Then the row has no values.
    let others = || match form {
        Form::EchoTexts if !is_probe => Ok(vec![TokenScore::NONE; ids.len()]),
        _ => {
            let named =
                |at: usize| format!(": its token {} is {:?}", at + 1, tokens.get(at).map_or("", String::as_str));
            let (sent, first) = (ids.len(), other.map_or(String::new(), named));
            let expected = format!("expected the server to read the {sent} tokens that asap sent");
            Err(Unread::Wrong(format!("{expected}, but it tokenized the text differently{first}")))
        }
    };
    if other.is_some() {
        return others();
    }
    let joined = tokens[..ids.len()].concat();
    if form == Form::EchoTexts && !tokenizer.text(ids).is_ok_and(|own| own == joined) {
        return others();
    }
    let mut scores = vec![TokenScore::NONE; ids.len()];
    for place in from..ids.len() {
        let none = || garbled(format!("no value for token {} at position {place}", ids[place]));
        scores[place] = score(token_logprobs.get(place).copied().flatten().ok_or_else(none)?, None)?;
    }
    if is_probe {
        let top = top_logprobs.ok_or_else(|| garbled("no top_logprobs"))?;
        let values = |top: HashMap<String, f64>| top.into_values().collect::<Vec<_>>();
        top.into_iter().take(ids.len()).flatten().try_for_each(|top| sums_to_one(&values(top)))?;
    }
    Ok(scores)
}

/// A probability is at most 1 / rank, so ln P is at most −ln rank. Logits are not.
fn score(value: f64, rank: Option<f64>) -> Result<TokenScore, Unread> {
    let most = rank.unwrap_or(1.0).max(1.0);
    if value > SLACK - most.ln() {
        return Err(logits(&format!("{value} for a token of rank {most}")));
    }
    let surprisal = if value <= MINUS_INFINITY { f32::INFINITY } else { -value as f32 };
    Ok(TokenScore { surprisal, entropy: 0.0, rank: rank.unwrap_or_default() as u32 })
}

fn sums_to_one(values: &[f64]) -> Result<(), Unread> {
    let sum: f64 = values.iter().map(|value| value.exp()).sum();
    if sum > 1.0 + SLACK {
        return Err(logits(&format!("{} values whose probabilities sum to {sum:.3}", values.len())));
    }
    Ok(())
}

/// Compares what two tokenizers write for a token: one may leave out the space before it, or half of a character.
fn is_same(own: &str, found: &str) -> bool {
    own.trim() == found.trim() || [own, found].iter().any(|text| text.contains('\u{fffd}') || text.is_empty())
}

fn same_text(id: u32, found: &str, tokenizer: &Tokenizer) -> Result<(), Unread> {
    match tokenizer.text(&[id]) {
        Ok(own) if !is_same(&own, found) => Err(Unread::Wrong(format!(
            "the server has another tokenizer: token {id} is {own:?} in {} and {found:?} at the server",
            Setting("asap.scorer.model")
        ))),
        _ => Ok(()),
    }
}
