//! Splits a chain of thought into steps and joins them.

pub mod lines;

use std::ops::Range;

use crate::white_space::is_space;
pub use crate::white_space::strip;

pub const SEPARATOR: &str = "\n\n";

/// What separates the steps of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Separator {
    /// As in the ASAP paper.
    #[default]
    BlankLine,
    Line,
}

impl Separator {
    pub fn named(name: &str) -> Option<Self> {
        [Self::BlankLine, Self::Line].into_iter().find(|separator| separator.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::BlankLine => "blank-line",
            Self::Line => "line",
        }
    }

    /// Returns the steps of a chain: [`steps`], or [`lines::steps`].
    pub fn steps(self, chain: &str) -> Vec<&str> {
        match self {
            Self::BlankLine => steps(chain),
            Self::Line => lines::steps(chain),
        }
    }

    /// Returns the bytes of a chain that each of its steps spans.
    pub fn spans(self, chain: &str) -> Vec<Range<usize>> {
        let span = |step: &str| {
            let start = step.as_ptr() as usize - chain.as_ptr() as usize;
            start..start + step.len()
        };
        self.steps(chain).into_iter().map(span).collect()
    }
}

/// Returns what stands between two joined steps: a blank line, or nothing if the first ends with its own line break. Two lists or
/// tables that would be one step get another line break.
pub fn separator(step: &str, next: &str) -> &'static str {
    match step.ends_with('\n') {
        false => SEPARATOR,
        true if lines::are_one(step, next) => "\n",
        true => "",
    }
}

/// Joins steps, as the model reads them.
pub fn join<'a>(steps: impl IntoIterator<Item = &'a str>) -> String {
    let (mut joined, mut before) = (String::new(), None);
    for step in steps {
        joined.push_str(before.map_or("", |before| separator(before, step)));
        joined.push_str(step);
        before = Some(step);
    }
    joined
}

/// Joins the `kept` steps of a chain, by their ascending indices. The last of them loses the line breaks at its end, unless it
/// is the last step of the chain.
pub fn select(all: &[&str], kept: impl IntoIterator<Item = usize>) -> String {
    let mut kept = kept.into_iter().peekable();
    join(std::iter::from_fn(|| {
        let step = kept.next()?;
        let is_last = kept.peek().is_none() && step + 1 < all.len();
        Some(if is_last { without_line_breaks(all[step]) } else { all[step] })
    }))
}

/// A step without the line breaks at its end.
pub fn without_line_breaks(step: &str) -> &str {
    step.trim_end_matches(['\n', '\r'])
}

/// Returns the steps of a chain. It is cut at every run of two or more consecutive line ends (`\n` or `\r\n`), so a
/// line with spaces does not separate. A step loses blank lines around it and white space at its end. It keeps the
/// indentation of its first line, which code needs. Empty steps are dropped.
pub fn steps(chain: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = chain;
    while !rest.is_empty() {
        let (piece, after) = cut(rest);
        let step = trim(piece);
        if !step.is_empty() {
            found.push(step);
        }
        rest = after;
    }
    found
}

fn cut(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(distance) = text[from..].find('\n') {
        let line_feed = from + distance;
        let after_return = line_feed > from && bytes[line_feed - 1] == b'\r';
        let start = if after_return { line_feed - 1 } else { line_feed };
        let (after, line_ends) = skip_line_ends(bytes, start);
        if line_ends >= 2 {
            return (&text[..start], &text[after..]);
        }
        from = after;
    }
    (text, "")
}

fn skip_line_ends(bytes: &[u8], mut at: usize) -> (usize, usize) {
    let mut line_ends = 0;
    loop {
        match bytes.get(at..) {
            Some([b'\n', ..]) => at += 1,
            Some([b'\r', b'\n', ..]) => at += 2,
            _ => return (at, line_ends),
        }
        line_ends += 1;
    }
}

fn trim(piece: &str) -> &str {
    let piece = piece.trim_end_matches(is_space);
    let indentation = piece.len() - piece.trim_start_matches(is_space).len();
    let first_line = piece[..indentation].rfind('\n').map_or(0, |line_end| line_end + 1);
    &piece[first_line..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps_by_regex(chain: &str) -> Vec<String> {
        let blank_lines = regex::Regex::new(r"(\r?\n){2,}").unwrap();
        let leading = regex::Regex::new(r"\A([\s\x1c-\x1f]*\n)?").unwrap();
        let trailing = regex::Regex::new(r"[\s\x1c-\x1f]*\z").unwrap();
        let pieces = blank_lines.split(chain).map(|piece| {
            let piece = trailing.replace(piece, "");
            leading.replace(&piece, "").into_owned()
        });
        pieces.filter(|step| !step.is_empty()).collect()
    }

    proptest! {
        #[test]
        fn equals_the_regular_expression(chain in r"([ab\r\n\n\n \t\x1c\x0c\u{a0}é]|\n\n|\r\n){0,30}") {
            prop_assert_eq!(steps(&chain), steps_by_regex(&chain));
        }

        #[test]
        fn joined_steps_are_cut_into_the_same_steps(chain in r"([ab\r\n\n\n \t]|\n\n|\r\n){0,30}") {
            let found = steps(&chain);
            let joined = join(found.iter().copied());
            prop_assert_eq!(steps(&joined), found);
        }
    }
}
