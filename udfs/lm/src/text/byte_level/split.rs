//! Splits texts like the regular expressions of Qwen2 and Llama 3.

use std::ops::Range;

use regex_syntax::hir::{Class, HirKind};

pub(crate) const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The expression of Llama 3, which matches up to three digits at a time.
pub(crate) const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(crate) const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum CharClass {
    Other,
    Letter,
    Number,
    Space,
    LineEnd,
}

#[derive(Debug)]
pub(crate) struct Splitter {
    /// The class of every scalar, from the tables of the regex engine.
    kinds: Box<[CharClass]>,
    digits: usize,
}

impl Splitter {
    /// A splitter equivalent to `expression`; None if the expression is not supported.
    pub(crate) fn of(expression: &str) -> Option<Self> {
        let digits = match expression {
            QWEN2 => 1,
            LLAMA3 => 3,
            _ => return None,
        };
        let mut kinds = vec![CharClass::Other; char::MAX as usize + 1];
        for (class, kind) in [(r"\p{L}", CharClass::Letter), (r"\p{N}", CharClass::Number), (r"\s", CharClass::Space)] {
            let class = regex_syntax::parse(class).ok()?;
            let HirKind::Class(Class::Unicode(class)) = class.kind() else { return None };
            for range in class.ranges() {
                kinds[range.start() as usize..=range.end() as usize].fill(kind);
            }
        }
        kinds['\r' as usize] = CharClass::LineEnd;
        kinds['\n' as usize] = CharClass::LineEnd;
        Some(Self { kinds: kinds.into_boxed_slice(), digits })
    }

    /// The pieces of a text, from left to right; they cover all of it.
    pub(crate) fn pieces<'a>(&'a self, text: &'a str) -> Pieces<'a> {
        Pieces { splitter: self, text, at: 0 }
    }
}

#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    splitter: &'a Splitter,
    text: &'a str,
    at: usize,
}

impl Iterator for Pieces<'_> {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let (kind, second) = self.scalar(start)?;
        self.at = match kind {
            CharClass::Letter => self.run(second, CharClass::Letter),
            CharClass::Number => self.digits(second),
            CharClass::LineEnd => self.white_space(start),
            CharClass::Space => match self.scalar(second) {
                Some((CharClass::Letter, third)) => self.run(third, CharClass::Letter),
                Some((CharClass::Other, third)) if self.byte(start) == b' ' => self.others(third),
                _ => self.white_space(start),
            },
            CharClass::Other => match self.contraction(start) {
                Some(end) => end,
                None => match self.scalar(second) {
                    Some((CharClass::Letter, third)) => self.run(third, CharClass::Letter),
                    _ => self.others(second),
                },
            },
        };
        Some(start..self.at)
    }
}

impl Pieces<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes()[at]
    }

    /// The class of the scalar at a byte, and the start of the next one; None at the end.
    #[inline(always)]
    fn scalar(&self, at: usize) -> Option<(CharClass, usize)> {
        let byte = *self.text.as_bytes().get(at)?;
        if byte.is_ascii() { Some((self.splitter.kinds[byte as usize], at + 1)) } else { self.wide_scalar(at) }
    }

    #[inline(never)]
    fn wide_scalar(&self, at: usize) -> Option<(CharClass, usize)> {
        let scalar = self.text[at..].chars().next()?;
        Some((self.splitter.kinds[scalar as usize], at + scalar.len_utf8()))
    }

    #[inline]
    fn run(&self, mut at: usize, kind: CharClass) -> usize {
        while let Some((found, next)) = self.scalar(at) {
            if found != kind {
                break;
            }
            at = next;
        }
        at
    }

    fn digits(&self, mut at: usize) -> usize {
        for _ in 1..self.splitter.digits {
            match self.scalar(at) {
                Some((CharClass::Number, next)) => at = next,
                _ => break,
            }
        }
        at
    }

    fn others(&self, at: usize) -> usize {
        self.run(self.run(at, CharClass::Other), CharClass::LineEnd)
    }

    /// White space up to its last line end; without one, all but the last character, which joins the next piece.
    fn white_space(&self, start: usize) -> usize {
        let (mut at, mut last, mut after_line_end) = (start, start, None);
        while let Some((kind @ (CharClass::Space | CharClass::LineEnd), next)) = self.scalar(at) {
            (last, at) = (at, next);
            if kind == CharClass::LineEnd {
                after_line_end = Some(next);
            }
        }
        match after_line_end {
            Some(end) => end,
            None if at < self.text.len() && last > start => last,
            None => at,
        }
    }

    /// The end of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d`, in any case. A long s (ſ) counts as an s.
    fn contraction(&self, start: usize) -> Option<usize> {
        let after = self.text.as_bytes()[start..].strip_prefix(b"'")?;
        let length = match after {
            [b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D', ..] => 1,
            [b'r' | b'R' | b'v' | b'V', b'e' | b'E', ..] | [b'l' | b'L', b'l' | b'L', ..] => 2,
            _ if after.starts_with("ſ".as_bytes()) => "ſ".len(),
            _ => return None,
        };
        Some(start + 1 + length)
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn every_scalar_is_of_the_kind_that_the_engine_takes_it_for() {
        let kinds = Splitter::of(QWEN2).unwrap().kinds;
        let classes = [r"[^\s\p{L}\p{N}]", r"\p{L}", r"\p{N}", r"[\s--\r\n]", r"[\r\n]"];
        let classes = classes.map(|class| Regex::new(class).unwrap());
        for scalar in '\0'..=char::MAX {
            let text = scalar.to_string();
            let expected = classes.iter().position(|class| class.is_match(&text));
            assert_eq!(Some(kinds[scalar as usize] as usize), expected, "{scalar:?}");
        }
    }
}
