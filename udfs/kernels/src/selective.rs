//! Selective Context (Li et al. 2023): drops the units of a text that have the least self-information.

use std::cmp::Ordering;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// What a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Sentence,
    /// A token of the model. Tokens that share a character are one unit.
    Token,
    /// A word, number, sign or other segment between two word boundaries of Unicode.
    Word,
}

/// A part of a text, and its mean self-information in nats; NaN if no token covers it.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    pub span: Range<usize>,
    pub nats: f64,
}

impl Level {
    pub const ALL: [(&str, Self); 3] = [("word", Self::Word), ("token", Self::Token), ("sentence", Self::Sentence)];

    /// Returns the units of a sentence. `tokens` are the spans of its tokens, and their self-information. A token that
    /// covers several units counts for each with an equal share.
    pub fn units(self, sentence: &str, tokens: &[(Range<usize>, f64)]) -> Vec<Unit> {
        let spans: Vec<Range<usize>> = match self {
            Self::Sentence => without_space((0, sentence)).into_iter().collect(),
            Self::Token => apart(sentence, tokens.iter().map(|(span, _)| span)),
            Self::Word => sentence.split_word_bound_indices().filter_map(without_space).collect(),
        };
        let mut sums = vec![(0.0, 0.0); spans.len()];
        for (token, nats) in tokens {
            let first = spans.partition_point(|span| span.end <= token.start);
            let covered = spans[first..].iter().take_while(|span| span.start < token.end).count();
            for (sum, count) in &mut sums[first..first + covered] {
                *sum += nats / covered as f64;
                *count += 1.0;
            }
        }
        spans.into_iter().zip(sums).map(|(span, (sum, count))| Unit { span, nats: sum / count }).collect()
    }
}

/// Returns the sentences of a text by the rules of Unicode, without white space at both ends.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    text.split_sentence_bound_indices().filter_map(without_space).collect()
}

/// Drops the units below the percentile `1 - ratio` of all units. What stands between two units belongs to the later
/// one. The result has no white space at both ends.
pub fn keep(text: &str, units: &[Unit], ratio: f64) -> String {
    let threshold = percentile(units.iter().map(|unit| unit.nats), 1.0 - ratio);
    let mut kept = String::new();
    let mut start = 0;
    for unit in units {
        if unit.nats.partial_cmp(&threshold) != Some(Ordering::Less) {
            kept.push_str(&text[start..unit.span.end]);
        }
        start = unit.span.end;
    }
    kept.trim().to_string()
}

fn without_space((start, text): (usize, &str)) -> Option<Range<usize>> {
    let start = start + text.len() - text.trim_start().len();
    let own = text.trim().len();
    (own > 0).then(|| start..start + own)
}

/// Merges spans that overlap.
fn apart<'a>(text: &str, spans: impl Iterator<Item = &'a Range<usize>>) -> Vec<Range<usize>> {
    let mut apart: Vec<Range<usize>> = vec![];
    for span in spans.filter(|span| !span.is_empty()) {
        let end = text.ceil_char_boundary(span.end);
        match apart.last_mut().filter(|last| span.start < last.end) {
            Some(last) => last.end = last.end.max(end),
            None => apart.push(span.start..end),
        }
    }
    apart
}

/// The percentile of the values that are not NaN, by linear interpolation, as numpy's `nanpercentile` computes it.
fn percentile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut sorted: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = share * sorted.len().saturating_sub(1) as f64;
    match (sorted.get(place.floor() as usize), sorted.get(place.ceil() as usize)) {
        (Some(below), Some(above)) => below + (above - below) * place.fract(),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nats(units: &[Unit]) -> Vec<(Range<usize>, f64)> {
        units.iter().map(|unit| (unit.span.clone(), unit.nats)).collect()
    }

    #[test]
    fn tokens_count_for_the_units_that_they_cover() {
        let tokens = [(0..1, 1.0), (1..5, 2.0), (5..8, 6.0), (8..9, 9.0), (9..11, 4.0)];
        let text = "I can't,  so";
        // The token `'t,` covers `can't` and the comma; the token of one space covers no word, and no token covers "so".
        assert_eq!(nats(&Level::Word.units(text, &tokens[..4]))[..2], [(0..1, 1.0), (2..7, 2.5)]);
        let words = Level::Word.units(text, &tokens[..4]);
        assert_eq!((words[2].clone(), words.len()), (Unit { span: 7..8, nats: 3.0 }, 4));
        assert!(words[3].nats.is_nan());
        assert_eq!(nats(&Level::Token.units(text, &tokens)), tokens);
        assert_eq!(nats(&Level::Sentence.units(text, &tokens)), [(0..12, 4.4)]);
        // Two tokens share the character é.
        let halves = [(0..2, 1.0), (0..2, 2.0), (2..3, 3.0)];
        assert_eq!(nats(&Level::Token.units("é!", &halves)), [(0..2, 1.5), (2..3, 3.0)]);
    }

    #[test]
    fn units_below_the_percentile_are_dropped_with_the_space_before_them() {
        let text = " One two.\n\nThree ";
        let found = sentences(text);
        assert_eq!(found.iter().map(|span| &text[span.clone()]).collect::<Vec<_>>(), ["One two.", "Three"]);
        let unit = |span, nats| Unit { span, nats };
        let units = [unit(1..4, 3.0), unit(4..8, 1.0), unit(8..9, f64::NAN), unit(11..16, 2.0)];
        for (ratio, kept) in [(0.9, "One.\n\nThree"), (0.5, "One.\n\nThree"), (0.4, "One."), (1.0, "One two.\n\nThree")]
        {
            assert_eq!(keep(text, &units, ratio), kept, "{ratio}");
        }
        assert_eq!(keep(" ", &[], 0.5), "");
        assert_eq!(keep("a", &[unit(0..1, f64::NAN)], 0.5), "a");
    }

    #[test]
    fn percentiles_interpolate() {
        let values = [4.0, 1.0, f64::NAN, 2.0, 3.0];
        let found = [0.0, 0.25, 0.5, 1.0].map(|share| percentile(values.into_iter(), share));
        assert_eq!(found, [1.0, 1.75, 2.5, 4.0]);
        assert!(percentile([].into_iter(), 0.5).is_nan());
    }
}
