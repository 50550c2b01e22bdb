//! Measures how well single words predict the labels of steps.

use std::collections::{BTreeMap, BTreeSet};

/// A word or n-gram that predicts a label in more than this fraction of its steps would make the sample too easy.
pub const MOST_PRECISION: f64 = 0.7;
/// The minimum number of steps that a word or n-gram must occur in to count as a predictor.
pub const LEAST_SUPPORT: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labelled {
    pub text: String,
    /// The label, as named in its corpus.
    pub label: String,
    /// The function of its first sentence, if the corpus has functions.
    pub function: Option<String>,
}

/// A first word or an n-gram, and how well it predicts a label.
#[derive(Debug, Clone, PartialEq)]
pub struct Cue {
    /// The words, in lower case. A first word begins with `^ `.
    pub words: String,
    pub label: String,
    pub steps: usize,
    pub precision: f64,
}

/// Returns every first word and every n-gram of one to three words that occurs in at least `least` steps, the most
/// precise first. Words are split at white space, in lower case, without the punctuation around them. Separate
/// punctuation is a word too.
pub fn cues(steps: &[Labelled], least: usize) -> Vec<Cue> {
    let mut counts: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    for step in steps {
        for words in grams(&step.text) {
            *counts.entry(words).or_default().entry(&step.label).or_default() += 1;
        }
    }
    let mut cues: Vec<_> = counts
        .into_iter()
        .filter(|(_, by_label)| by_label.values().sum::<usize>() >= least)
        .flat_map(|(words, by_label)| {
            let steps = by_label.values().sum::<usize>();
            let (label, most) = by_label.into_iter().max_by_key(|(_, count)| *count)?;
            Some(Cue { words, label: label.to_string(), steps, precision: most as f64 / steps as f64 })
        })
        .collect();
    cues.sort_by(|a, b| b.precision.total_cmp(&a.precision).then(b.steps.cmp(&a.steps)).then(a.words.cmp(&b.words)));
    cues
}

pub(crate) fn first_word(text: &str) -> Option<String> {
    text.split_whitespace().next().map(word)
}

fn grams(text: &str) -> BTreeSet<String> {
    let words: Vec<_> = text.split_whitespace().map(word).collect();
    let mut grams: BTreeSet<_> = (1..=3).flat_map(|n| words.windows(n).map(|words| words.join(" "))).collect();
    grams.extend(words.first().map(|first| format!("^ {first}")));
    grams
}

fn word(text: &str) -> String {
    let is_mark = |scalar: char| scalar.is_ascii_punctuation() || scalar == '…' || scalar == '—';
    let inner = text.trim_matches(is_mark);
    if inner.is_empty() { text.to_string() } else { inner.to_lowercase() }
}

#[cfg(test)]
mod tests;
