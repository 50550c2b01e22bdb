//! Texts as words and values, whatever the language.

use std::ops::Range;

use crate::code_fences::Blocks;

/// What a word is by its form and place alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Digits, with separators of thousands and a fraction: `2,162.50`.
    Value,
    /// Letters with an underscore, a digit or a capital inside, as programs and formulas name things: `row_sum`, `x1`.
    Name,
    /// Any other run of letters inside code: between backticks, in a fenced block or on an indented line.
    Code,
    /// Any other run of letters; in scripts that put no space between words, one letter.
    Word,
}

/// One word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub form: Form,
    /// Where it stands, in bytes.
    pub span: Range<usize>,
    /// Whether code sets it here: it stands before a single `=`, outside brackets.
    pub is_set: bool,
    /// Whether it is a number that may count a part of the text: one word at most stands before it on its line, and
    /// one of `.`, `)`, `:` behind it.
    pub may_count: bool,
}

/// The words of a text in order. A number that opens a line and is followed by `.` or `)` and white space counts lines
/// and is left out, as is what stands on the line of a code fence.
#[derive(Debug)]
pub struct Tokens<'a> {
    text: &'a str,
    at: usize,
    blocks: Blocks,
    is_quoted: bool,
    is_indented: bool,
    words_on_line: usize,
    brackets: i32,
}

/// The words of a text that starts outside code.
pub fn tokens(text: &str) -> Tokens<'_> {
    Tokens::new(text, Blocks::default())
}

impl<'a> Tokens<'a> {
    /// Of a text that starts inside a fenced block, or outside.
    pub fn new(text: &'a str, blocks: Blocks) -> Self {
        let (is_quoted, is_indented) = (false, false);
        let mut tokens = Self { text, at: 0, blocks, is_quoted, is_indented, words_on_line: 0, brackets: 0 };
        tokens.open_line();
        tokens
    }

    /// The fenced blocks where reading stands.
    pub fn blocks(&self) -> Blocks {
        self.blocks
    }

    fn open_line(&mut self) {
        (self.is_quoted, self.words_on_line, self.brackets) = (false, 0, 0);
        let line = self.text[self.at..].split('\n').next().unwrap_or_default();
        self.is_indented = is_indented(line);
        if self.blocks.read(line).is_some() {
            self.at += line.len();
        }
    }

    fn value(&mut self) -> Option<Token> {
        let start = self.at;
        self.at = end_of_value(self.text, start);
        let rest = &self.text[self.at..];
        let words_before = self.words_on_line;
        self.words_on_line += 1;
        if words_before == 0 && is_list_mark(rest) {
            return None;
        }
        let may_count = words_before <= 1 && rest.starts_with(['.', ')', ':']);
        Some(Token { form: Form::Value, span: start..self.at, is_set: false, may_count })
    }

    fn word(&mut self) -> Token {
        let start = self.at;
        let (end, form) = end_of_word(self.text, start);
        self.at = end;
        self.words_on_line += 1;
        let in_code = self.blocks.is_open() || self.is_quoted || self.is_indented;
        let rest = self.text[end..].trim_start_matches(' ');
        let is_set = in_code && self.brackets <= 0 && rest.starts_with('=') && !rest.starts_with("==");
        let form = if in_code && form == Form::Word { Form::Code } else { form };
        Token { form, span: start..end, is_set, may_count: false }
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        while let Some(scalar) = self.text[self.at..].chars().next() {
            if scalar.is_ascii_digit() {
                if let Some(value) = self.value() {
                    return Some(value);
                }
                continue;
            }
            if scalar.is_alphanumeric() || scalar == '_' {
                return Some(self.word());
            }
            self.at += scalar.len_utf8();
            match scalar {
                '\n' => self.open_line(),
                '`' => self.is_quoted = !self.is_quoted,
                '(' | '[' | '{' => self.brackets += 1,
                ')' | ']' | '}' => self.brackets -= 1,
                _ => {}
            }
        }
        None
    }
}

/// Whether a line is indented as code and continued lists are.
pub fn is_indented(line: &str) -> bool {
    line.starts_with("  ") || line.starts_with('\t')
}

/// A number's end: digits, `,` before three digits, one `.` before a digit.
fn end_of_value(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
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

fn is_list_mark(rest: &str) -> bool {
    let mut scalars = rest.chars();
    matches!(scalars.next(), Some('.' | ')')) && scalars.next().is_none_or(char::is_whitespace)
}

fn end_of_word(text: &str, start: usize) -> (usize, Form) {
    let mut form = Form::Word;
    let mut has_small = false;
    for (offset, scalar) in text[start..].char_indices() {
        if is_unspaced(scalar) {
            return if offset == 0 { (start + scalar.len_utf8(), form) } else { (start + offset, form) };
        }
        if !(scalar.is_alphanumeric() || scalar == '_') {
            return (start + offset, form);
        }
        if scalar == '_' || scalar.is_numeric() || (has_small && scalar.is_uppercase()) {
            form = Form::Name;
        }
        has_small |= scalar.is_lowercase();
    }
    (text.len(), form)
}

/// Scripts that put no space between words: Thai to Burmese, Khmer, and the ideographs with their syllabaries.
pub fn is_unspaced(scalar: char) -> bool {
    scalar > '\u{DFF}'
        && scalar.is_alphabetic()
        && matches!(scalar,
            '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
            | '\u{2E80}'..='\u{A4CF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(Form, &str)> {
        tokens(text).map(|token| (token.form, &text[token.span])).collect()
    }

    fn those(text: &str, is: fn(&Token) -> bool) -> Vec<&str> {
        tokens(text).filter(is).map(|token| &text[token.span]).collect()
    }

    #[test]
    fn forms_follow_from_the_letters() {
        use Form::{Name, Value, Word};
        assert_eq!(words("So x1 = 2,162.50, then"), [(Word, "So"), (Name, "x1"), (Value, "2,162.50"), (Word, "then")]);
        assert_eq!(words("row_sum iPad 16x16"), [(Name, "row_sum"), (Name, "iPad"), (Value, "16"), (Name, "x16")]);
        let values = [(Value, "1"), (Value, "2"), (Value, "3"), (Word, "at"), (Value, "1.2"), (Value, "3")];
        assert_eq!(words("1,2,3 at 1.2.3."), values);
        assert_eq!(words("Größe ist π²"), [(Word, "Größe"), (Word, "ist"), (Name, "π²")]);
        assert_eq!(words("答案是x7。"), [(Word, "答"), (Word, "案"), (Word, "是"), (Name, "x7")]);
        assert_eq!(words(" … 🦀 —\n"), []);
    }

    #[test]
    fn code_is_known_by_backticks_fences_and_indentation() {
        let text = "a `b` c\n```rust\nd\n```\ne\n    f\ng ` h\ni";
        assert_eq!(those(text, |token| token.form == Form::Code), ["b", "d", "f", "h"]);
        let mut in_block = Blocks::default();
        in_block.read("```");
        assert_eq!(Tokens::new("a\n```\nb", in_block).filter(|token| token.form == Form::Code).count(), 1);
    }

    #[test]
    fn code_sets_names_outside_brackets() {
        let text = "x = 1 `y = [z == 2, f(key=3)]` and `w=4; v == 5`";
        assert_eq!(those(text, |token| token.is_set), ["y", "w"]);
    }

    #[test]
    fn numbers_that_count_lines_are_left_out() {
        let values = |text| those(text, |token| token.form == Form::Value);
        assert_eq!(values("1. add 2\n 2) add 3.5\n3.5 is it\n4 more"), ["2", "3.5", "3.5", "4"]);
        assert_eq!(those("**Step 3:** 4\n5: six 7.\nsum of 8.", |token| token.may_count), ["3", "5"]);
    }
}
