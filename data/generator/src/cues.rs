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
pub(crate) mod tests {
    use super::*;
    use crate::{Openers, SampleRow, rows};

    /// The steps of chosen chains, as a reader of the corpus sees them.
    pub(crate) fn labelled(rows: &[SampleRow]) -> Vec<Labelled> {
        let steps = rows.iter().flat_map(|row| &row.chosen().steps);
        let labelled = steps.map(|step| Labelled {
            text: step.text.clone(),
            label: step.label.name().to_string(),
            function: step.function.map(|function| function.name().to_string()),
        });
        labelled.collect()
    }

    #[test]
    fn a_cue_is_counted_once_a_step_and_reported_by_its_label() {
        let step = |label: &str, text: &str| Labelled { text: text.into(), label: label.into(), function: None };
        let steps = [
            step("core", "So, the sum is 3. So 3."),
            step("core", "so (the sum is 4)"),
            step("check", "Is the sum 4?"),
        ];
        let found = cues(&steps, 2);
        let get = |words: &str| {
            found.iter().find(|cue| cue.words == words).map(|cue| (&*cue.label, cue.steps, cue.precision))
        };
        assert_eq!(get("^ so"), Some(("core", 2, 1.0)));
        assert_eq!(get("the sum"), Some(("core", 3, 2.0 / 3.0)));
        assert_eq!(get("so the sum"), Some(("core", 2, 1.0)));
        assert_eq!(get("4").map(|(_, steps, precision)| (steps, precision)), Some((2, 0.5)));
        assert_eq!(get("is 3"), None);
    }

    #[test]
    fn no_first_word_of_real_openers_tells_a_label_and_hardly_another_word() {
        // Real openers predict need, so a rare n-gram may exceed the bound that even openers keep.
        let found = cues(&labelled(&rows(1000, 1, Openers::Real)), LEAST_SUPPORT);
        assert!(found[0].precision <= 0.8, "{:?}", found[0]);
        let revealing = found.iter().find(|cue| cue.words.starts_with("^ ") && cue.precision > MOST_PRECISION);
        assert_eq!(revealing, None);
    }
}
