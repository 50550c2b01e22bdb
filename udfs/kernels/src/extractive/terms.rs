//! The terms that link the texts of a row in any language: values, names, lines.

use std::borrow::Cow;

/// The minimum bytes of a line that is a term. Shorter lines, such as closing braces, occur everywhere.
const LEAST_LINE: usize = 4;

/// Returns the values and names of a text, and its trimmed lines. A line with code between backticks yields that code.
pub(super) fn terms(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    words(text).chain(text.lines().flat_map(lines).map(Cow::Borrowed))
}

/// Returns the values and names of a text. A name is a sequence of ASCII letters with a digit, an underscore or a
/// capital inside, as in programs and formulas. Separators of thousands and trailing zeros do not change a value.
pub(super) fn words(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + text[at..].find(is_of_word)?;
            if text.as_bytes()[start].is_ascii_digit() {
                at = end_of_value(text, start);
                return Some(value(&text[start..at]));
            }
            at = text[start..].find(|scalar| !is_of_word(scalar)).map_or(text.len(), |length| start + length);
            if is_name(&text[start..at]) {
                return Some(Cow::Borrowed(&text[start..at]));
            }
        }
    })
}

fn is_of_word(scalar: char) -> bool {
    scalar.is_ascii_alphanumeric() || scalar == '_'
}

fn is_name(word: &str) -> bool {
    let has_hump =
        || word.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    word.bytes().any(|byte| byte == b'_' || byte.is_ascii_digit()) || has_hump()
}

fn end_of_value(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let digit = |place: usize| bytes.get(place).is_some_and(u8::is_ascii_digit);
    let mut at = start;
    let mut has_fraction = false;
    loop {
        match bytes.get(at) {
            Some(b'0'..=b'9') => at += 1,
            Some(b',') if !has_fraction && (1..=3).all(|i| digit(at + i)) && !digit(at + 4) => at += 4,
            Some(b'.') if !has_fraction && digit(at + 1) => {
                has_fraction = true;
                at += 2;
            }
            _ => return at,
        }
    }
}

fn value(written: &str) -> Cow<'_, str> {
    let short = if written.contains('.') { written.trim_end_matches('0').trim_end_matches('.') } else { written };
    if short.contains(',') { Cow::Owned(short.replace(',', "")) } else { Cow::Borrowed(short) }
}

fn lines(line: &str) -> impl Iterator<Item = &str> {
    let is_fence = line.trim_start().starts_with("```");
    let is_quoting = line.contains('`');
    let pieces = line.split('`').skip(usize::from(is_quoting)).step_by(2);
    pieces.map(str::trim).filter(move |piece| !is_fence && piece.len() >= LEAST_LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_names_are_known_by_their_form() {
        let found = |text| words(text).collect::<Vec<_>>();
        assert_eq!(found("So x1 = 2,162.50, then 4.0"), ["x1", "2162.5", "4"]);
        assert_eq!(found("row_sum iPad 16x16 Alice"), ["row_sum", "iPad", "16", "x16"]);
        assert_eq!(found("1,2,3 at 1.2.3."), ["1", "2", "3", "1.2", "3"]);
        assert_eq!(found("每箱有12盘，Größe 7"), ["12", "7"]);
        assert_eq!(found(" … 🦀 —\n"), [""; 0]);
    }

    #[test]
    fn lines_are_those_of_code_and_prose_but_no_fences() {
        let found = |text: &'static str| text.lines().flat_map(lines).collect::<Vec<_>>();
        assert_eq!(found("```py\n    x = [1]\n}\n```\nIt is so."), ["x = [1]", "It is so."]);
        assert_eq!(found("With `a = f(b)` and `c` it `is open"), ["a = f(b)", "is open"]);
    }
}
