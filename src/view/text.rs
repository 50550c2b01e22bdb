//! Texts as pages show them: nothing in them is hidden, and nothing in them acts.

use std::borrow::Cow;

use crate::output::count;

/// Characters of a text that a page with several chains shows.
pub(crate) const FOLDED: usize = 4_000;

/// Replaces characters that a reader cannot see, or that change how the text around them is drawn, by symbols. Line feeds
/// and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for scalar in text.chars() {
        match scalar {
            scalar if !is_hidden(scalar) => shown.push(scalar),
            '\u{7f}' => shown.push('␡'),
            // Unicode has a picture of each of these control characters.
            '\0'..='\u{1f}' => shown.extend(char::from_u32(0x2400 + u32::from(scalar))),
            _ => shown += &format!("⟨U+{:04X}⟩", u32::from(scalar)),
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(scalar: char) -> bool {
    let is_layout = matches!(scalar, '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    is_layout || scalar.is_control() && !matches!(scalar, '\n' | '\t')
}

/// The beginning of a text, and the number of characters after it.
pub(crate) fn folded(text: &str, limit: usize) -> (&str, usize) {
    match text.char_indices().nth(limit) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    }
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
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible("a\tb\nc"), "a\tb\nc");
        assert_eq!(visible("a\0\r\u{1b}[31m\u{7f}\u{85}"), "a␀␍␛[31m␡⟨U+0085⟩");
        assert_eq!(visible("\u{202e}evil\u{2066}\u{feff}"), "⟨U+202E⟩evil⟨U+2066⟩⟨U+FEFF⟩");
        assert_eq!(visible("👩\u{200d}👧 שלום"), "👩\u{200d}👧 שלום");
    }

    #[test]
    fn a_fold_counts_characters() {
        assert_eq!(folded("äöü", 3), ("äöü", 0));
        assert_eq!(folded("äöüß", 2), ("äö", 2));
    }
}
