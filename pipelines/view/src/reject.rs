//! A rejected row: why it was rejected, and its texts with the place of the fault.

use std::ops::Range;

use asap_kernels::tags;
use asap_udfs::messages::TURN_CHAINS;
use datafusion::common::Result;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::place::InputRow;
use super::source::{Listing, QueryRow, Source};
use super::text::identifier;
use crate::terminal::visible;

/// Columns about the row, which are no texts of it.
const ABOUT: [&str; 3] = ["source", "status", "error"];
/// The fields of a message with calls of tools.
const CALLS: [&str; 2] = ["tool_calls", "function_call"];
/// The columns that come first.
const FIRST: [&str; 4] = ["question", "system", "cot", "answer"];

/// All columns of a rejected row. None if the row was not rejected.
pub(crate) async fn read(source: &Source, place: &InputRow) -> Result<Option<Map<String, Value>>> {
    if source.status.rejects.is_empty() {
        return Ok(None);
    }
    let (rejects, condition) = (source.rejects(), InputRow::condition(std::slice::from_ref(place)));
    let schema = source.columns_of_rejects().await?;
    let columns: Vec<_> = schema.fields().iter().map(|field| identifier(field.name())).collect();
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let listing = Listing {
        table: &rejects,
        columns: &columns,
        condition: Some(&condition),
        order: &[],
        first: 0,
        rows: Some(1),
    };
    Ok(source.listed(&listing).await?.rows.pop())
}

/// Why a row was rejected, in a sentence.
pub(crate) fn said(row: &Map<String, Value>) -> String {
    let row = QueryRow::of(row);
    let place = row.get("source").as_object().map(|place| InputRow::of(QueryRow::of(place)));
    let (file, at) = place.map_or((String::new(), 0), |place| (place.file, place.row));
    format!("row {at} of {file} was rejected ({}): {}", row.text("status"), row.text("error"))
}

/// The row as a part of a page.
pub(crate) fn html(row: &Map<String, Value>) -> Markup {
    let (status, error) = (QueryRow::of(row).text("status"), QueryRow::of(row).text("error"));
    let mut columns: Vec<_> = row.iter().filter(|(name, _)| !ABOUT.contains(&name.as_str())).collect();
    columns.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    // The error names the column that is wrong.
    let words: Vec<_> = error.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
    let mut seen: Vec<String> = Vec::new();
    let mut parts: Vec<(String, String, Option<Range<usize>>)> = Vec::new();
    for (name, value) in columns {
        let is_named = words.contains(&name.as_str());
        let texts = texts(name, value);
        if texts.is_empty() && is_named {
            parts.push((name.clone(), String::new(), Some(0..0)));
        }
        let last = texts.len().saturating_sub(1);
        for (index, (label, text)) in texts.into_iter().enumerate() {
            let fault = if is_named && index == last { fault(status, &text) } else { None };
            if fault.is_some() || !seen.contains(&text) {
                seen.push(text.clone());
                parts.push((label, text, fault));
            }
        }
    }
    html! {
        p.error { (visible(&said(row))) }
        @for (label, text, fault) in &parts {
            h2.part { (visible(label)) }
            div.t dir="auto" {
                @match fault {
                    None => (visible(text)),
                    Some(fault) => {
                        (visible(&text[..fault.start]))
                        mark { @if fault.is_empty() { "✗ " (expected(status)) } @else { (visible(&text[fault.clone()])) } }
                        (visible(&text[fault.end..]))
                    }
                }
            }
        }
    }
}

/// The texts of a value, each with a label: one, or those of a list of turns with their thoughts and calls. A blank value has none.
fn texts(name: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::String(text) if !text.trim().is_empty() => vec![(name.to_string(), text.clone())],
        Value::Array(items) => items.iter().flat_map(|item| texts(name, item)).collect(),
        Value::Object(turn) => {
            let role = ["role", "from"].iter().find_map(|role| turn.get(*role)?.as_str());
            let name = role.map_or(name.to_string(), |role| format!("{name}: {role}"));
            let first = |names: &[&str], name: &str| {
                let mut found = names.iter().filter_map(|held| Some(texts(name, turn.get(*held)?)));
                found.find(|texts| !texts.is_empty()).unwrap_or_default()
            };
            let mut found = first(&TURN_CHAINS, &format!("{name}, thought"));
            found.extend(first(&["content", "value", "text", "parts"], &name));
            let calls = CALLS.iter().filter_map(|calls| turn.get(*calls)).filter(|calls| is_filled(calls));
            found.extend(calls.map(|calls| (format!("{name}, calls"), calls.to_string())));
            found
        }
        _ => vec![],
    }
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    }
}

/// The place of a fault in the text that is wrong; an empty one where something is missing.
fn fault(status: &str, text: &str) -> Option<Range<usize>> {
    let end = text.len()..text.len();
    match status {
        "no_tags" | "no_answer" => Some(end),
        "text_before_chain" => {
            let before = tags::parts(text)?.before;
            let from = text.find(before)?;
            Some(from..from + before.len())
        }
        "tags_in_answer" => {
            let closing = text.find("</")?;
            let after = closing + text[closing..].find('>')?;
            let again = after + text[after..].find("think")?;
            let from = text[..again].rfind('<')?;
            Some(from..again + text[again..].find('>').map_or(0, |end| end + 1))
        }
        _ => None,
    }
}

/// What is missing at the place of a fault.
fn expected(status: &str) -> &'static str {
    match status {
        "no_tags" => "the text ends here, without a closing think tag",
        "no_answer" => "the text ends here, without an answer",
        _ => "empty",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_have_places() {
        let found = |status: &str, text: &str| fault(status, text).map(|place| text[place].to_string());
        assert_eq!(fault("no_tags", "<think>So"), Some(9..9));
        assert_eq!(found("text_before_chain", "Sure! <think>So</think>1").as_deref(), Some("Sure!"));
        assert_eq!(found("tags_in_answer", "<think>So</think>1 <think>Or</think>2").as_deref(), Some("<think>"));
        assert_eq!(fault("unverified", "So"), None);
    }

    #[test]
    fn messages_show_their_thoughts_texts_and_calls() {
        let row = json!([
            {"role": "user", "content": [{"type": "text", "text": "8 + 5?"}]},
            {"role": "assistant", "content": null, "reasoning_content": "A sum.", "tool_calls": [{"name": "add"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "So 13."}, {"type": "text", "text": "13"}], "tool_calls": []},
        ]);
        let found = texts("messages", &row);
        let found: Vec<_> = found.iter().map(|(label, text)| (label.as_str(), text.as_str())).collect();
        let expected = [
            ("messages: user", "8 + 5?"),
            ("messages: assistant, thought", "A sum."),
            ("messages: assistant, calls", r#"[{"name":"add"}]"#),
            ("messages: assistant, thought", "So 13."),
            ("messages: assistant", "13"),
        ];
        assert_eq!(found, expected);
    }
}
