//! Reads a response that was streamed, though no request asks for that: events, or JSON next to them, as one message.
//!
//! What was streamed is paid, so it is read by what it holds and not by its content type.

use serde_json::{Map, Value, json};

use crate::send::openai::{content, error_of};

/// The fields of a message that come in pieces.
const PIECES: [&str; 5] = ["content", "reasoning_content", "reasoning", "reasoning_details", "refusal"];
const OVER: &str = "[DONE]";

/// What a body that is no JSON holds.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// A chat completion, or an error.
    Message(Value),
    /// A stream of something else.
    Unknown,
    NoStream,
}

/// Returns what was streamed as one message.
pub(crate) fn message(body: &str) -> Found {
    let Events { values, is_stream, is_over } = events(body);
    let mut joined = Joined { is_over, ..Joined::default() };
    values.iter().for_each(|value| joined.take(value));
    match joined.message() {
        Some(message) => Found::Message(message),
        // A gateway that only says that it works on the answer has broken off.
        None if is_stream && values.is_empty() => Found::Message(broken_off()),
        None if is_stream => Found::Unknown,
        None => Found::NoStream,
    }
}

/// Returns the only JSON in a body that streams it, and other bodies as they are.
pub(crate) fn only(body: &str) -> String {
    let text = body.trim();
    let is_json = text.starts_with('{') && text.ends_with('}');
    let values = if is_json { vec![] } else { events(body).values };
    match values.as_slice() {
        [value] => value.to_string(),
        _ => body.to_string(),
    }
}

#[derive(Default)]
struct Events {
    values: Vec<Value>,
    is_stream: bool,
    is_over: bool,
}

/// Reads the JSON of events, and JSON that stands between them.
fn events(body: &str) -> Events {
    let body = body.trim_start_matches('\u{feff}');
    let mut found = Events { is_stream: body.trim_start().starts_with(':'), ..Events::default() };
    // The data of one event, and JSON outside of events; either may have several lines.
    let (mut data, mut bare) = (String::new(), String::new());
    let lines = body.split(if body.contains('\n') { '\n' } else { '\r' });
    for line in lines.map(|line| line.trim_end_matches('\r')).chain([""]) {
        let field = ["data", "event", "id", "retry", ""].into_iter().find_map(|name| {
            let value = line.strip_prefix(name)?.strip_prefix(':')?;
            Some((name, value.strip_prefix(' ').unwrap_or(value)))
        });
        match field {
            Some((name, value)) => {
                found.read(&mut bare);
                found.is_stream |= matches!(name, "data" | "event");
                match name {
                    "data" if value.trim() == OVER => found.is_over = true,
                    "data" => data = data + value + "\n",
                    _ => {}
                }
            }
            None if line.trim().is_empty() => found.read(&mut data),
            None => bare = bare + line + "\n",
        }
    }
    found.read(&mut data);
    found.read(&mut bare);
    found
}

impl Events {
    /// Takes the JSON of a text: all of it, or each of its lines, as servers write that leave out empty lines.
    fn read(&mut self, text: &mut String) {
        let text = std::mem::take(text);
        match crate::send::json::parse::<Value>(&text) {
            Ok(value) => self.values.push(value),
            Err(_) => {
                let lines = text.lines().filter_map(|line| crate::send::json::parse::<Value>(line).ok());
                self.values.extend(lines.filter(Value::is_object));
            }
        }
    }
}

/// A message that has come in pieces so far.
#[derive(Debug, Default)]
struct Joined {
    /// The last message that came as a whole.
    whole: Option<Value>,
    pieces: Map<String, Value>,
    is_begun: bool,
    is_over: bool,
    finish_reason: Value,
    usage: Value,
    model: Value,
    /// An error of the whole response, and one of the answer.
    error: Value,
    fault: Value,
}

impl Joined {
    fn take(&mut self, event: &Value) {
        let error = error_of(event);
        if !error.is_null() {
            // After the end of an answer, an error changes nothing.
            if self.finish_reason.is_null() && self.error.is_null() {
                self.error = error.clone();
            }
            return;
        }
        let Some(choices) = event["choices"].as_array() else { return };
        self.is_begun = true;
        // One answer is asked for.
        let choice = choices.iter().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0).unwrap_or(&Value::Null);
        for (held, found) in [
            (&mut self.model, &event["model"]),
            (&mut self.finish_reason, &choice["finish_reason"]),
            (&mut self.fault, &choice["error"]),
        ] {
            if !found.is_null() {
                *held = found.clone();
            }
        }
        // Two vendors count inside of a field of their own and of the choice.
        let usage =
            [&event["usage"], &event["x_groq"]["usage"], &choice["usage"]].into_iter().find(|usage| usage.is_object());
        usage.into_iter().for_each(|usage| self.usage = usage.clone());
        let delta = choice["delta"].as_object().filter(|delta| !delta.is_empty());
        match delta {
            Some(_) => self.add(&choice["delta"]),
            None if choice["message"].is_object() => self.whole = Some(event.clone()),
            None => {}
        }
    }

    fn add(&mut self, delta: &Value) {
        let thoughts = delta["content"].as_array().into_iter().flatten().filter_map(|part| content(&part["thinking"]));
        let pieces = PIECES.iter().filter_map(|name| Some((*name, content(&delta[*name])?)));
        let pieces: Vec<(&str, String)> = thoughts.map(|thought| (PIECES[1], thought)).chain(pieces).collect();
        for (name, piece) in pieces {
            match self.pieces.get_mut(name) {
                Some(Value::String(text)) => text.push_str(&piece),
                _ => drop(self.pieces.insert(name.to_string(), piece.into())),
            }
        }
    }

    fn message(self) -> Option<Value> {
        let Self { whole, pieces, is_begun, is_over, finish_reason, usage, model, error, fault } = self;
        match whole {
            _ if !error.is_null() => Some(json!({ "error": error, "usage": usage })),
            Some(mut whole) => {
                if whole["usage"].is_null() {
                    whole["usage"] = usage;
                }
                Some(whole)
            }
            None if !is_begun => None,
            None if is_over || !finish_reason.is_null() || !fault.is_null() => {
                let choice = json!({ "message": pieces, "finish_reason": finish_reason, "error": fault });
                Some(json!({ "model": model, "usage": usage, "choices": [choice] }))
            }
            None => Some(broken_off()),
        }
    }
}

/// The message of a stream that ends before its answer does.
fn broken_off() -> Value {
    json!({ "choices": [{ "error": { "message": "its stream ended before the answer did" } }] })
}
