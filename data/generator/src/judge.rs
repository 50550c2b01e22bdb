//! Measures how well first words predict need, label and function, their distribution, and the position of the answer.

use std::collections::BTreeMap;

use crate::cues::{Labelled, first_word};
use crate::dice::Dice;
use crate::functions::{is_named, shares_of_first_words};

/// First words in fewer steps than this are counted as one: rare words predict their labels by chance.
const LEAST_STEPS: usize = 10;
/// The number of shuffles whose mean is the mutual information by chance.
const SHUFFLES: u64 = 20;

/// Statistics of the first words of a corpus, in bits except `words`.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub words: usize,
    pub entropy: f64,
    /// Their Jensen–Shannon distance from those of real traces. Words without a share there count as one.
    pub distance: f64,
    pub of_need: f64,
    pub of_label: f64,
    /// Their information about the function, if all steps have one.
    pub of_function: Option<f64>,
}

pub fn judge(steps: &[Labelled]) -> Judged {
    let words: Vec<String> = steps.iter().map(|step| first_word(&step.text).unwrap_or_default()).collect();
    let counts = counted(&words);
    let pooled: Vec<&str> =
        words.iter().map(|word| if counts[word] < LEAST_STEPS { "" } else { word.as_str() }).collect();
    let needed: Vec<_> = steps.iter().map(|step| is_needed(&step.label)).collect();
    let labels: Vec<_> = steps.iter().map(|step| &step.label).collect();
    let functions: Option<Vec<_>> = steps.iter().map(|step| step.function.as_ref()).collect();
    Judged {
        words: counts.len(),
        entropy: entropy(counts.values().map(|count| *count as f64)),
        distance: distance(&words),
        of_need: beyond_chance(&pooled, &needed),
        of_label: beyond_chance(&pooled, &labels),
        of_function: functions.map(|functions| beyond_chance(&pooled, &functions)),
    }
}

pub(crate) fn is_needed(label: &str) -> bool {
    matches!(label, "core" | "true")
}

/// Returns the fraction of a chain's characters before it first states the answer, or `None` if it never does. Runs of
/// white space count as one space. An answer inside a longer word or number does not count.
pub fn answer_place(chain: &str, answer: &str) -> Option<f64> {
    let [chain, answer] = [chain, answer].map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    if answer.is_empty() {
        return None;
    }
    let mut places = chain.match_indices(&answer).map(|(at, _)| (&chain[..at], &chain[at + answer.len()..]));
    let (before, _) = places.find(|(before, after)| !goes_on(before.chars().rev()) && !goes_on(after.chars()))?;
    Some(before.chars().count() as f64 / chain.chars().count() as f64)
}

fn goes_on(mut beside: impl Iterator<Item = char>) -> bool {
    match beside.next() {
        Some('.' | ',') => beside.next().is_some_and(|scalar| scalar.is_ascii_digit()),
        next => next.is_some_and(char::is_alphanumeric),
    }
}

fn counted<T: Ord>(things: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for thing in things {
        *counts.entry(thing).or_default() += 1;
    }
    counts
}

fn entropy(weights: impl IntoIterator<Item = f64>) -> f64 {
    let weights: Vec<_> = weights.into_iter().filter(|weight| *weight > 0.0).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| -weight / sum * (weight / sum).log2()).sum()
}

/// Returns the mutual information in bits, minus the mean of shuffled pairs.
fn beyond_chance<A: Ord, B: Ord>(of: &[A], what: &[B]) -> f64 {
    let (of, what) = (numbered(of), numbered(what));
    let mut shuffled = what.clone();
    let by_chance = (0..SHUFFLES).map(|shuffle| {
        Dice::new(shuffle, 0).shuffle(&mut shuffled);
        information(&of, &shuffled)
    });
    information(&of, &what) - by_chance.sum::<f64>() / SHUFFLES as f64
}

fn numbered<T: Ord>(things: &[T]) -> Vec<usize> {
    let numbers: BTreeMap<_, _> =
        counted(things).into_keys().enumerate().map(|(number, thing)| (thing, number)).collect();
    things.iter().map(|thing| numbers[thing]).collect()
}

fn information(left: &[usize], right: &[usize]) -> f64 {
    let of = |counts: Vec<usize>| entropy(counts.into_iter().map(|count| count as f64));
    let pairs = counted(left.iter().zip(right)).into_values().collect();
    of(counted(left).into_values().collect()) + of(counted(right).into_values().collect()) - of(pairs)
}

fn distance(words: &[String]) -> f64 {
    let mut real = BTreeMap::from([("", 1.0)]);
    for (word, share) in shares_of_first_words() {
        *real.entry(word).or_insert(0.0) += share;
        *real.entry("").or_insert(0.0) -= share;
    }
    let ours = counted(words.iter().map(|word| if is_named(word) { word.as_str() } else { "" }));
    let ours = |word: &str| ours.get(word).map_or(0.0, |count| *count as f64 / words.len().max(1) as f64);
    let mixed = real.iter().map(|(word, share)| (share + ours(word)) / 2.0);
    entropy(mixed) - (entropy(real.values().copied()) + entropy(real.keys().map(|word| ours(word)))) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cues::tests::labelled;
    use crate::{Function, Openers, SampleRow, rows};

    fn step(text: &str, label: &str) -> Labelled {
        Labelled { text: text.to_string(), label: label.to_string(), function: None }
    }

    #[test]
    fn what_words_tell_is_measured_in_bits_and_chance_is_taken_off() {
        let measured: Vec<_> =
            (0..400).map(|i| if i % 2 == 0 { step("So a", "core") } else { step("But b", "check") }).collect();
        let found = judge(&measured);
        assert_eq!((found.words, found.of_function), (2, None));
        assert!((found.entropy - 1.0).abs() < 1e-9 && (found.of_need - 1.0).abs() < 0.01, "{found:?}");
        let untold: Vec<_> = (0..400).map(|i| step(["So", "But"][i % 2], ["core", "check"][i / 2 % 2])).collect();
        assert!(judge(&untold).of_label.abs() < 0.01);
        // Words that occur once predict nothing, although each has one label.
        let rare: Vec<_> = (0..400).map(|i| step(&format!("w{i}"), ["core", "check"][i % 2])).collect();
        assert!(judge(&rare).of_label.abs() < 0.01);
    }

    #[test]
    fn words_of_real_shares_are_near_and_others_far() {
        let mut words = Vec::new();
        for (word, share) in shares_of_first_words() {
            words.extend(std::iter::repeat_n(word.to_string(), (share * 1e5).round() as usize));
        }
        words.extend((words.len()..100_000).map(|number| format!("w{number}")));
        assert!(distance(&words) < 1e-3, "{}", distance(&words));
        assert!(distance(&vec!["okay".to_string(); 50]) > 0.5);
    }

    #[test]
    fn an_answer_stands_where_it_is_first_stated_as_a_whole() {
        assert_eq!(answer_place("a 12.5 and 112, then 12. So 12", "12"), Some(21.0 / 30.0));
        assert_eq!(answer_place("def f():\n\n    return 1", "def f():\n    return 1\n"), Some(0.0));
        assert_eq!((answer_place("ab 3", "b 3"), answer_place("x", "")), (None, None));
    }

    fn places(rows: &[SampleRow]) -> Vec<f64> {
        let answer = |row: &SampleRow| row.answer.replace("```python", "").replace("```", "");
        let mut places: Vec<_> = rows.iter().map(|row| answer_place(&row.cot(), &answer(row)).unwrap()).collect();
        places.sort_by(f64::total_cmp);
        places
    }

    #[test]
    fn real_openers_tell_what_real_traces_tell_and_even_ones_next_to_nothing() {
        for seed in [1, 2, 3] {
            let rows = rows(2000, seed, Openers::Real);
            let (found, places) = (judge(&labelled(&rows)), places(&rows));
            assert!((0.03..=0.07).contains(&found.of_need), "{found:?}");
            assert!((0.5..=0.9).contains(&found.of_function.unwrap()), "{found:?}");
            assert!(found.distance <= 0.05, "{found:?}");
            assert!((0.4..=0.6).contains(&places[1000]), "{}", places[1000]);
        }
        let even = rows(2000, 1, Openers::Even);
        let found = judge(&labelled(&even));
        assert!(found.of_need < 0.02 && found.distance > 0.2, "{found:?}");
    }

    #[test]
    fn what_real_openers_leave_open_begins_with_many_words() {
        let rows = rows(2000, 1, Openers::Real);
        let steps = rows.iter().flat_map(|row| &row.chosen().steps);
        let words = steps.filter(|step| step.function == Some(Function::Computation));
        let words: Vec<_> = words.filter_map(|step| first_word(&step.text)).collect();
        let others: Vec<_> = words.iter().filter(|word| !is_named(word)).collect();
        let share = others.len() as f64 / words.len() as f64;
        assert!(share > 0.5 && counted(&others).len() > 300, "{share}");
    }
}
