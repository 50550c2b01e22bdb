//! What a terminal gets: text of a corpus, of a server or of a file's name must not move its cursor, set its title or its
//! clipboard, or reverse what follows.

use std::borrow::Cow;
use std::io::IsTerminal;

/// A text as a stream gets it: on a terminal it is [`visible`], elsewhere it stays as it is.
pub fn shown<'a>(text: &'a str, stream: &impl IsTerminal) -> Cow<'a, str> {
    if stream.is_terminal() { visible(text) } else { Cow::Borrowed(text) }
}

/// Replaces characters that a reader cannot see, or that change how the text around them is drawn, by symbols. Line feeds
/// and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
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

/// A text within a line of a message: no line break of a corpus starts a line that reads like one of asap.
pub fn one_line(text: &str) -> String {
    visible(text).replace('\n', "␊")
}

pub fn is_hidden(scalar: char) -> bool {
    let is_layout = matches!(scalar, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'
        | '\u{1160}' | '\u{180e}' | '\u{3164}' | '\u{ffa0}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    is_layout || scalar.is_control() && !matches!(scalar, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible("a\tb\nc"), "a\tb\nc");
        assert_eq!(visible("a\0\r\u{1b}[31m\u{7f}\u{85}"), "a␀␍␛[31m␡⟨U+0085⟩");
        assert_eq!(visible("\u{202e}evil\u{2066}\u{feff}"), "⟨U+202E⟩evil⟨U+2066⟩⟨U+FEFF⟩");
        assert_eq!(visible("\u{180e}\u{34f}\u{3164}"), "⟨U+180E⟩⟨U+034F⟩⟨U+3164⟩");
        assert_eq!(one_line("a\nnote: b"), "a␊note: b");
        assert_eq!(visible("👩\u{200d}👧 שלום"), "👩\u{200d}👧 שלום");
    }
}
