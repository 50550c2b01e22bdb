//! What single words tell about the labels of steps.

use std::collections::{BTreeMap, BTreeSet};

use crate::trace::{Label, Step};

/// A word or n-gram that tells a label in more than this share of its steps would make the sample too easy.
pub const MOST_PRECISION: f64 = 0.7;
/// Steps that a word or n-gram must occur in before it is held to tell anything.
pub const LEAST_SUPPORT: usize = 50;

/// A first word or an n-gram, and how well it tells a label.
#[derive(Debug, Clone, PartialEq)]
pub struct Cue {
    /// The words, in lower case; a first word is marked as such.
    pub words: String,
    /// The label that most steps with the cue have.
    pub label: Label,
    /// Steps with the cue.
    pub steps: usize,
    /// The share of them that have the label.
    pub precision: f64,
}

/// Every first word and every n-gram of one to three words that occurs in at least `least` steps, the most precise
/// first. A word is what stands between white space, in lower case, without the punctuation around it; punctuation
/// that stands alone is a word too.
pub fn cues(steps: &[Step], least: usize) -> Vec<Cue> {
    let mut counts: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    for step in steps {
        for words in grams(&step.text) {
            counts.entry(words).or_default()[step.label as usize] += 1;
        }
    }
    let mut cues: Vec<_> = counts
        .into_iter()
        .filter(|(_, by_label)| by_label.iter().sum::<usize>() >= least)
        .flat_map(|(words, by_label)| {
            let steps = by_label.iter().sum::<usize>();
            let most = Label::ALL.into_iter().max_by_key(|label| by_label[*label as usize])?;
            Some(Cue { words, label: most, steps, precision: by_label[most as usize] as f64 / steps as f64 })
        })
        .collect();
    cues.sort_by(|a, b| b.precision.total_cmp(&a.precision).then(b.steps.cmp(&a.steps)).then(a.words.cmp(&b.words)));
    cues
}

/// The cues that one step holds, each once.
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
mod tests {
    use super::*;

    #[test]
    fn a_cue_is_counted_once_a_step_and_told_by_its_label() {
        let step = |label, text: &str| Step { label, text: text.to_string() };
        let steps = [
            step(Label::Core, "So, the sum is 3. So 3."),
            step(Label::Core, "so (the sum is 4)"),
            step(Label::Check, "Is the sum 4?"),
        ];
        let found = cues(&steps, 2);
        let get =
            |words: &str| found.iter().find(|cue| cue.words == words).map(|cue| (cue.label, cue.steps, cue.precision));
        assert_eq!(get("^ so"), Some((Label::Core, 2, 1.0)));
        assert_eq!(get("the sum"), Some((Label::Core, 3, 2.0 / 3.0)));
        assert_eq!(get("so the sum"), Some((Label::Core, 2, 1.0)));
        assert_eq!(get("4"), Some((Label::Check, 2, 0.5)));
        assert_eq!(get("is 3"), None);
    }
}
