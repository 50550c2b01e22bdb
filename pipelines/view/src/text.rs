//! Texts as pages show them.

use crate::output::count;

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

/// A value of a query as a cell of a table.
pub(crate) fn cell(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "–".to_string(),
        serde_json::Value::String(text) => text.clone(),
        value => match (value.as_u64(), value.as_f64()) {
            (Some(number), _) => count(number),
            (_, Some(number)) => rounded(number),
            _ => value.to_string(),
        },
    }
}

/// A number with at most four digits after the point.
fn rounded(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fold_counts_characters() {
        assert_eq!(folded("äöü", 3), ("äöü", 0));
        assert_eq!(folded("äöüß", 2), ("äö", 2));
        assert_eq!((beginning("ä\n ö", 3), beginning("ä\n ö", 2)), ("ä ö".to_string(), "ä …".to_string()));
    }
}
