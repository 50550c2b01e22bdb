//! Groups tokens into words, and selects the words to keep.

use std::iter::repeat_n;

use regex_syntax::hir::{Class, ClassUnicode, HirKind};

use super::tokens::{PLACEHOLDERS, Tokens, placeholder};
use super::{Options, Weigh};
use crate::model::config::EncoderFamily;
use crate::{LmError, Result};

/// Python's `string.punctuation`: these characters, and any substring of them, begin a word in XLM-RoBERTa's tokens.
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

#[derive(Debug)]
pub(super) struct Rules<'a> {
    options: &'a Options,
    family: EncoderFamily,
    placeholders: Vec<(&'a str, String)>,
    digits: ClassUnicode,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Word {
    text: String,
    /// Probability to be kept, or 1 or 0 if a rule decides.
    keep: f32,
}

impl<'a> Rules<'a> {
    pub(super) fn new(options: &'a Options, tokens: &Tokens, family: EncoderFamily) -> Result<Self> {
        let refused = |why: String| Err(LmError::Compression(why));
        if options.force_tokens.len() > PLACEHOLDERS {
            return refused(format!("{} force tokens: expected at most {PLACEHOLDERS}", options.force_tokens.len()));
        }
        let mut placeholders: Vec<(&str, String)> = Vec::new();
        for (place, force) in options.force_tokens.iter().enumerate() {
            if force.is_empty() {
                return refused("a force token is empty: expected the text of a token or a word".to_string());
            }
            let is_known = placeholders.iter().any(|(other, _)| other == force);
            if !is_known && tokens.of(force)?.len() != 1 {
                placeholders.push((force, placeholder(place)));
            }
        }
        Ok(Self { options, family, placeholders, digits: digits()? })
    }

    pub(super) fn placeholder(&self, text: &str) -> String {
        self.placeholders.iter().fold(text.to_string(), |text, (force, placeholder)| text.replace(force, placeholder))
    }

    pub(super) fn ends(&self) -> Vec<&str> {
        let ends = [".", "\n"];
        let instead =
            self.placeholders.iter().filter(|(force, _)| ends.contains(force)).map(|(_, token)| token.as_str());
        ends.into_iter().chain(instead).collect()
    }

    /// Groups a chunk's tokens into words, each with the mean probability of its tokens.
    pub(super) fn words(&self, tokens: impl Iterator<Item = (String, f32)>) -> Vec<Word> {
        let mut words: Vec<(Word, u16)> = Vec::new();
        for (token, keep) in tokens {
            let pure = self.pure(&token);
            match words.last_mut() {
                Some((word, count)) if !self.begins_word(&token, pure) => {
                    word.text.push_str(pure);
                    word.keep += if self.is_reserved(&token) { 1.0 } else { keep };
                    *count += 1;
                }
                _ => {
                    let is_forced = self.is_forced(pure);
                    let original =
                        |token: String, (force, placeholder): &(&str, String)| token.replace(placeholder, force);
                    let text = self.placeholders.iter().fold(token, original);
                    let keep = if is_forced || self.is_reserved(&text) { 1.0 } else { keep };
                    words.push((Word { text, keep }, 1));
                }
            }
        }
        words.into_iter().map(|(word, count)| Word { keep: word.keep / f32::from(count), ..word }).collect()
    }

    /// Returns the kept words of a chunk if the share `dropped` is to be dropped.
    pub(super) fn kept(&self, mut words: Vec<Word>, dropped: f64, weigh: &Weigh) -> Result<Vec<String>> {
        if self.options.drop_consecutive {
            self.drop_consecutive(&mut words, dropped);
        }
        let mut weighted = Vec::new();
        for Word { text, keep } in &words {
            weighted.extend(repeat_n(*keep, weigh(text)?));
        }
        let threshold = percentile(weighted, 100.0 * dropped + 1.0);
        let mut kept: Vec<String> = Vec::new();
        for Word { text, keep } in words {
            let is_above = f64::from(keep) > threshold || (threshold == 1.0 && keep == 1.0);
            let is_again = || self.options.drop_consecutive && self.is_force_token(&text) && kept.last() == Some(&text);
            if is_above && !is_again() {
                kept.push(text);
            }
        }
        Ok(kept)
    }

    /// Drops a force token that repeats the previous one, if no likely word is between them.
    fn drop_consecutive(&self, words: &mut [Word], dropped: f64) {
        let threshold = percentile(words.iter().map(|word| word.keep).collect(), 100.0 * dropped);
        let mut is_between = false;
        let mut before: Option<&str> = None;
        for Word { text, keep } in words {
            if !self.is_force_token(text) {
                is_between |= f64::from(*keep) > threshold;
                continue;
            }
            if !is_between && before == Some(text) {
                *keep = 0.0;
            }
            is_between = false;
            before = Some(text);
        }
    }

    fn begins_word(&self, token: &str, pure: &str) -> bool {
        match self.family {
            EncoderFamily::XlmRoberta => PUNCTUATION.contains(token) || token.starts_with('▁') || self.is_forced(token),
            EncoderFamily::Bert => !token.starts_with("##") || self.is_forced(pure),
        }
    }

    fn pure<'t>(&self, token: &'t str) -> &'t str {
        match self.family {
            EncoderFamily::XlmRoberta => token.trim_start_matches('▁'),
            EncoderFamily::Bert => token.trim_start_matches('#'),
        }
    }

    fn is_force_token(&self, text: &str) -> bool {
        self.options.force_tokens.iter().any(|force| force == text)
    }

    fn is_forced(&self, token: &str) -> bool {
        self.is_force_token(token) || self.placeholders.iter().any(|(_, placeholder)| placeholder == token)
    }

    fn is_reserved(&self, token: &str) -> bool {
        let is_digit = |c: char| self.digits.ranges().iter().any(|range| (range.start()..=range.end()).contains(&c));
        self.options.reserve_digits && token.chars().any(is_digit)
    }
}

fn digits() -> Result<ClassUnicode> {
    match regex_syntax::parse(r"\d").map(|digits| digits.into_kind()) {
        Ok(HirKind::Class(Class::Unicode(digits))) => Ok(digits),
        other => Err(LmError::Compression(format!("expected a class of digits, found {other:?}"))),
    }
}

/// Returns a percentile for a whole per cent, interpolated linearly as in NumPy; NaN without values.
fn percentile(mut values: Vec<f32>, per_cent: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    values.sort_unstable_by(f32::total_cmp);
    // The published code truncates the per cent, although 100 · (1 − 0.8) is 19.999….
    let place = last as f64 * (per_cent.trunc().min(100.0) / 100.0);
    let below = place as usize;
    let [low, high] = [below, last.min(below + 1)].map(|i| f64::from(values[i]));
    let share = place - below as f64;
    if share < 0.5 { low + (high - low) * share } else { high - (high - low) * (1.0 - share) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_ends_at_the_highest_value_and_has_none_without_values() {
        for (per_cent, expected) in [(0.0, 0.25), (31.9, 0.4825), (100.0, 1.0), (101.0, 1.0)] {
            let found = percentile(vec![0.5, 0.25, 0.75, 1.0], per_cent);
            assert!((found - expected).abs() < 1e-12, "{per_cent}: {found}");
        }
        assert!(percentile(vec![], 51.0).is_nan());
    }
}
