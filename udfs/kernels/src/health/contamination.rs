//! Questions of benchmarks in other texts.

use std::collections::{BTreeMap, HashMap};

use super::{grams, hash, kind, pieces};
use crate::health::Kind;

/// Pieces of a sequence that is looked up. A shorter question is one sequence.
const GRAM: usize = 8;
/// Questions with fewer pieces say too little.
const LEAST: usize = 4;
/// A text matches a question of fewer pieces if it has all sequences of the question, otherwise if it has half of them.
const SHORT: usize = 16;
/// A sequence is common, and does not count, if it is in more questions than this, or than one in a hundred.
const IN_QUESTIONS: usize = 2;
/// A sequence is common if it is in this many texts that match none of its questions, or in one in ten thousand.
const IN_TEXTS: u32 = 3;

/// The questions of a benchmark, and the texts that match them.
#[derive(Debug)]
pub struct Contamination {
    questions: Vec<Question>,
    index: HashMap<u64, Vec<u32>>,
    /// The different lengths of sequences in the index.
    lengths: Vec<usize>,
    texts: u32,
    unmatched: HashMap<u64, u32>,
    matches: Vec<Match>,
}

#[derive(Debug)]
struct Question {
    pieces: usize,
    grams: Vec<u64>,
}

/// A text that matches a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    pub text: u64,
    pub question: usize,
    /// The share of the question's sequences that the text has.
    pub share: f64,
    /// The longest part of the text that is also in the question.
    pub matched: String,
    grams: Vec<u64>,
}

impl Contamination {
    pub fn new<'a>(questions: impl IntoIterator<Item = &'a str>) -> Self {
        let mut index: HashMap<u64, Vec<u32>> = HashMap::new();
        let mut read = Vec::new();
        for (number, question) in questions.into_iter().enumerate() {
            let pieces: Vec<u64> = words(question).map(|(_, piece)| hash(piece)).collect();
            let mut grams: Vec<u64> = match pieces.len() {
                ..LEAST => vec![],
                length => grams(&pieces, GRAM.min(length)).collect(),
            };
            grams.sort_unstable();
            grams.dedup();
            grams.iter().for_each(|gram| index.entry(*gram).or_default().push(number as u32));
            read.push(Question { pieces: pieces.len(), grams });
        }
        let most = IN_QUESTIONS.max(read.len() / 100);
        index.retain(|_, questions| questions.len() <= most);
        read.iter_mut().for_each(|question| question.grams.retain(|gram| index.contains_key(gram)));
        let lengths = (LEAST..=GRAM).filter(|n| read.iter().any(|question| question.pieces.min(GRAM) == *n)).collect();
        Self { questions: read, index, lengths, texts: 0, unmatched: HashMap::new(), matches: vec![] }
    }

    /// The number of questions that are too short, or made of common sequences only.
    pub fn unchecked(&self) -> usize {
        self.questions.iter().filter(|question| question.grams.is_empty()).count()
    }

    /// Looks for the questions in a text, and remembers it by its number if it matches one.
    pub fn look(&mut self, number: u64, text: &str) {
        self.texts += 1;
        let places: Vec<(usize, &str)> = words(text).collect();
        let pieces: Vec<u64> = places.iter().map(|(_, piece)| hash(piece)).collect();
        // The sequences of each question that the text has, and where they begin and end.
        let mut found: BTreeMap<u32, Vec<(usize, usize, u64)>> = BTreeMap::new();
        for length in &self.lengths {
            for (place, gram) in grams(&pieces, *length).enumerate() {
                for question in self.index.get(&gram).into_iter().flatten() {
                    found.entry(*question).or_default().push((place, place + length, gram));
                }
            }
        }
        let mut is_matched: HashMap<u64, bool> = HashMap::new();
        for (question, hits) in found {
            let question = question as usize;
            let mut grams: Vec<u64> = hits.iter().map(|(.., gram)| *gram).collect();
            grams.sort_unstable();
            grams.dedup();
            let (share, matches) = self.matches(question, &grams, |_| false);
            grams.iter().for_each(|gram| *is_matched.entry(*gram).or_default() |= matches);
            if matches {
                let runs = hits.chunk_by(|a, b| a.0 + 1 == b.0).map(|run| (run[0].0, run[run.len() - 1].1));
                let (from, to) = runs.max_by_key(|(from, to)| to - from).unwrap_or_default();
                let (last, piece) = places[to - 1];
                let matched = text[places[from].0..last + piece.len()].to_string();
                self.matches.push(Match { text: number, question, share, matched, grams });
            }
        }
        for (gram, _) in is_matched.into_iter().filter(|(_, is_matched)| !is_matched) {
            *self.unmatched.entry(gram).or_default() += 1;
        }
    }

    /// The share of a question's sequences that are in `grams`, without the common ones, and whether it is a match.
    fn matches(&self, question: usize, grams: &[u64], is_common: impl Fn(u64) -> bool) -> (f64, bool) {
        let Question { pieces, grams: all } = &self.questions[question];
        let all = all.iter().filter(|gram| !is_common(**gram)).count();
        let share = grams.iter().filter(|gram| !is_common(**gram)).count() as f64 / all.max(1) as f64;
        (share, share >= if *pieces < SHORT { 1.0 } else { 0.5 })
    }

    /// The matches, by text and question. Sequences that are common in texts which match no question do not count.
    pub fn finish(mut self) -> Vec<Match> {
        let most = IN_TEXTS.max(self.texts / 10_000);
        let is_common = |gram| self.unmatched.get(&gram).is_some_and(|texts| *texts >= most);
        let mut matches = std::mem::take(&mut self.matches);
        matches.retain_mut(|found| {
            let (share, matches) = self.matches(found.question, &found.grams, is_common);
            found.share = share;
            matches
        });
        matches.sort_by_key(|found| (found.text, found.question));
        matches
    }
}

/// The pieces that say something: words, numbers, and signs that formulas need. Marks of quotes, lists and LaTeX do not.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    pieces(text).filter(|(_, piece)| {
        let first = piece.chars().next().unwrap_or(' ');
        kind(first) != Kind::Single || first.is_alphanumeric() || matches!(first, '+' | '=' | '^' | '/' | '%')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTIONS: [&str; 3] = [
        "A shop sells pens for $3 and books for $12. Ann buys 4 pens and 2 books. How much does she pay in all, in dollars?",
        "Compute $\\sin 60^\\circ$.",
        "A farmer has 17 sheep and buys twice as many. How many sheep does the farmer have now? Write the number alone.",
    ];

    #[test]
    fn questions_are_found_embedded_wrapped_and_short_and_common_phrases_are_not() {
        let mut search = Contamination::new(QUESTIONS);
        let wrapped: String = QUESTIONS[0].split(' ').map(|word| format!("> {word}\n")).collect();
        let quoted = format!("Please help me. {} Thanks!", QUESTIONS[1]);
        search.look(7, &wrapped);
        search.look(8, &quoted);
        search.look(9, "A shop sells pens for $3 and books for $9. Who buys them, and when will the shop close?");
        let found: Vec<_> =
            search.finish().into_iter().map(|found| (found.text, found.question, found.share)).collect();
        assert_eq!(found, [(7, 0, 1.0), (8, 1, 1.0)]);

        // Half of a question is a match, unless texts that match no question have the same words.
        let half = "How many sheep does the farmer have now? Write the number alone. A farmer has 17 sheep and buys twice as many cows.";
        for (others, matches) in [(0, 1), (3, 0)] {
            let mut search = Contamination::new(QUESTIONS);
            search.look(0, half);
            let other = |n: u64| format!("Case {n}: how many sheep does the farmer have now? Write the number alone.");
            (1..=others).for_each(|n| search.look(n, &other(n)));
            let found = search.finish();
            assert_eq!(found.len(), matches, "{found:?}");
            assert!(found.iter().all(|found| found.matched.starts_with("How many sheep")), "{found:?}");
        }
    }
}
