//! JSON from endpoints: Python's `json` writes NaN and lone surrogates, and some servers begin with a byte order mark.

use serde::de::DeserializeOwned;

/// Parses JSON. NaN and infinities become null, and a lone surrogate becomes U+FFFD.
pub fn parse<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str(text).or_else(|error| serde_json::from_str(&repaired(text)).map_err(|_| error))
}

fn repaired(text: &str) -> String {
    let (mut repaired, mut rest, mut is_string) = (String::with_capacity(text.len()), text, false);
    while let Some(next) = rest.chars().next() {
        let constant = ["NaN", "Infinity", "-Infinity"].into_iter().find(|name| rest.starts_with(name));
        let (length, by) = match (is_string, constant) {
            (false, Some(name)) => (name.len(), Some("null")),
            (true, _) if next == '\\' => escape(rest),
            _ => {
                is_string ^= next == '"';
                (next.len_utf8(), None)
            }
        };
        let (taken, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        repaired.push_str(by.unwrap_or(taken));
        rest = after;
    }
    repaired
}

/// Returns the length of the escape sequence at the start of a text, and its replacement if it is a lone surrogate.
fn escape(text: &str) -> (usize, Option<&'static str>) {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    match (unit(0), unit(6)) {
        (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => (12, None),
        (Some(0xd800..0xe000), _) => (6, Some("\\ufffd")),
        (Some(_), _) => (6, None),
        (None, _) => (1 + text[1..].chars().next().map_or(0, char::len_utf8), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_python_writes_is_read() {
        for (text, expected) in [
            ("\u{feff}{\"a\": 1}", json!({ "a": 1 })),
            (
                r#"{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN"}"#,
                json!({ "a": null, "b": [null, null], "c": "NaN" }),
            ),
            (
                r#"{"a": "x\ud800y\udc00 \ud83d\ude00 \\ud800 \"NaN", "b": NaN}"#,
                json!({
                    "a": "x\u{fffd}y\u{fffd} 😀 \\ud800 \"NaN", "b": null
                }),
            ),
            (r#"["\ud800\ud83d\ude00"]"#, json!(["\u{fffd}😀"])),
            (r#"["\ud800\u00e9"]"#, json!(["\u{fffd}é"])),
        ] {
            assert_eq!(parse::<Value>(text).unwrap(), expected, "{text}");
        }
        for text in ["", "\\", "\"\\", "\"\\ud8", "{\"a\": Na}", "\"\\ué", "\u{feff}", "{\"a\": NaN"] {
            assert!(parse::<Value>(text).is_err(), "{text}");
        }
    }
}
