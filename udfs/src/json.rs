//! JSON text, cut without changes to its numbers and its white space.

use std::borrow::Cow;

/// Finds the borders of the items of an array or an object: its brackets and its own commas.
#[derive(Debug, Default)]
pub struct Scanner {
    pub depth: usize,
    is_text: bool,
    is_escaped: bool,
}

impl Scanner {
    pub fn is_border(&mut self, byte: u8) -> bool {
        if self.is_text {
            self.is_text = self.is_escaped || byte != b'"';
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return false;
        }
        match byte {
            b'"' => self.is_text = true,
            b'[' | b'{' => {
                self.depth += 1;
                return self.depth == 1;
            }
            b']' | b'}' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            b',' => return self.depth == 1,
            _ => {}
        }
        false
    }

    /// Whether the bytes before this one end within a text.
    pub fn is_text(&self) -> bool {
        self.is_text
    }
}

/// The items of an array or the members of an object, as written.
pub fn items(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut scanner, mut from) = (Scanner::default(), 0);
    let borders = text.iter().enumerate().filter(move |(_, byte)| scanner.is_border(**byte));
    let items = borders.map(move |(at, _)| text.get(std::mem::replace(&mut from, at + 1)..at).unwrap_or_default());
    items.filter(|item| !item.trim_ascii().is_empty())
}

/// The key of a member of an object, and its value as written. None if the member has none.
pub fn member(text: &[u8]) -> Option<(String, &[u8])> {
    let mut keys = serde_json::Deserializer::from_slice(text).into_iter::<String>();
    let key = keys.next()?.ok()?;
    let value = text[keys.byte_offset()..].trim_ascii_start().strip_prefix(b":")?;
    Some((key, value.trim_ascii()))
}

/// A value as text: a text as it reads, anything else as written. None for null.
pub fn plain(value: &str) -> Option<Cow<'_, str>> {
    match value.as_bytes().first()? {
        b'"' => Some(serde_json::from_str::<String>(value).map_or(Cow::Borrowed(value), Cow::Owned)),
        _ if value == "null" => None,
        _ => Some(Cow::Borrowed(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_cut_into_its_members_as_they_are_written() {
        let text = br#" {"a": {"x": [1, 2.50]}, "b,\"c": "}", "d" : 1e400 }"#;
        let members: Vec<_> = items(text).filter_map(member).collect();
        let expected: [(String, &[u8]); 3] =
            [("a".into(), br#"{"x": [1, 2.50]}"#), ("b,\"c".into(), br#""}""#), ("d".into(), b"1e400")];
        assert_eq!(members, expected);
        assert_eq!(items(b"[1, [2, 3], \"4, 5\"]").count(), 3);
        assert_eq!((items(b"[ ]").count(), items(b"1").count(), member(b"1")), (0, 0, None));
        assert_eq!(plain(r#""a\nb""#), Some("a\nb".into()));
        assert_eq!((plain("null"), plain("1.50")), (None, Some("1.50".into())));
    }
}
