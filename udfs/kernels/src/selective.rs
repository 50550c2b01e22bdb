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

    #[test]
    fn percentiles_interpolate() {
        let values = [4.0, 1.0, f64::NAN, 2.0, 3.0];
        let found = [0.0, 0.25, 0.5, 1.0].map(|share| percentile(values.into_iter(), share));
        assert_eq!(found, [1.0, 1.75, 2.5, 4.0]);
        assert!(percentile([].into_iter(), 0.5).is_nan());
    }
}
