//! Texts as pages show them.

use crate::output::count;
use crate::terminal::visible;

/// The column of times.
const SECONDS: &str = "seconds";

/// Characters of a text that a page with several chains shows.
pub(crate) const FOLDED: usize = 4_000;

/// The beginning of a text, and the number of characters after it.
pub(crate) fn folded(text: &str, limit: usize) -> (&str, usize) {
    match text.char_indices().nth(limit) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    }
}

/// The beginning of a text, in one line.
pub(crate) fn beginning(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match folded(&line, limit) {
        (_, 0) => line,
        (beginning, _) => format!("{beginning}…"),
    }
}

/// A column as SQL names it.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// How a table names a column of a query.
pub(crate) fn head(column: &str) -> &str {
    if column == SECONDS { "time" } else { column }
}

/// A value of a column of a query as a cell of a table.
pub(crate) fn cell(column: &str, value: &serde_json::Value) -> String {
    match value {
        value if column == SECONDS && value.is_number() => took(value.as_f64().unwrap_or_default()),
        serde_json::Value::Null => "–".to_string(),
        serde_json::Value::String(text) => text.clone(),
        value => match (value.as_u64(), value.as_f64()) {
            (Some(number), _) => count(number),
            (_, Some(number)) => rounded(number),
            _ => value.to_string(),
        },
    }
}

/// A time for people, in its two largest units.
fn took(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", count(whole / 3_600), whole / 60 % 60),
    }
}

/// A number with at most four digits after the point.
fn rounded(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

pub(crate) fn indented(text: &str, by: &str) -> String {
    visible(text).lines().map(|line| format!("{by}{line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_short() {
        assert_eq!(folded("äöü", 3), ("äöü", 0));
        assert_eq!(folded("äöüß", 2), ("äö", 2));
        let times = [2.04, 59.96, 163.8381, 7260.0].map(|seconds| cell("seconds", &seconds.into()));
        assert_eq!(times, ["2.0 s", "1 min 0 s", "2 min 44 s", "2 h 1 min"]);
        assert_eq!(cell("tokens", &163.8381.into()), "163.8381");
        assert_eq!((beginning("ä\n ö", 3), beginning("ä\n ö", 2)), ("ä ö".to_string(), "ä …".to_string()));
    }
}
