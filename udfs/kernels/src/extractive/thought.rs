//! The direct thought: the question, the given terms, and the terms to reach.

use std::borrow::Cow;
use std::collections::HashSet;

use super::terms::{terms, words};
use crate::code_fences::Blocks;

const GOAL: &str = "goal:";
const GIVEN: &str = "given:";
const THROUGH: &str = "through:";
const REACH: &str = "reach:";

const MOST_ENTRIES: usize = 24;
const MOST_OF_SENTENCE: usize = 240;
const MOST_OF_PROGRAM: usize = 8192;

/// Writes the direct thought in up to four parts: the question sentence (`goal:`), the values and names of the question
/// (`given:`), those that the answer adds (`through:`), and the result to reach (`reach:`). The result is the program
/// in the answer's fenced blocks, else its last sentence. Empty parts are left out. None if the answer is blank.
pub fn write(question: &str, answer: &str) -> Option<String> {
    let reach = reach(answer)?;
    let (asked, reached): (HashSet<_>, HashSet<_>) = (words(question).collect(), words(&reach).collect());
    let given = list(words(question));
    let through = list(words(answer).filter(|word| !asked.contains(word) && !reached.contains(word)));
    let goal = start(goal(question), MOST_OF_SENTENCE).to_string();
    let parts = [(GOAL, goal), (GIVEN, given), (THROUGH, through), (REACH, reach)];
    let written = parts.iter().filter(|(_, text)| !text.is_empty()).map(|(label, text)| format!("{label} {text}"));
    Some(written.collect::<Vec<_>>().join("\n"))
}

#[derive(Debug, Default)]
pub(super) struct ThoughtTerms<'a> {
    pub given: HashSet<Cow<'a, str>>,
    pub wanted: HashSet<Cow<'a, str>>,
    /// The terms to reach, without the given ones unless all are given.
    pub reach: HashSet<Cow<'a, str>>,
}

impl<'a> ThoughtTerms<'a> {
    /// Reads a thought. In one from another source, without parts, every term must be reached.
    pub(super) fn read(thought: &'a str) -> Self {
        let mut parts = Self::default();
        let mut label = REACH;
        for line in thought.lines() {
            let found = [GOAL, GIVEN, THROUGH, REACH].into_iter().find(|label| line.starts_with(label));
            label = found.unwrap_or(label);
            let found = terms(line.strip_prefix(label).unwrap_or(line));
            match label {
                REACH => parts.reach.extend(found),
                THROUGH => parts.wanted.extend(found),
                _ => parts.given.extend(found),
            }
        }
        parts.wanted.extend(parts.reach.iter().cloned());
        if parts.reach.iter().any(|term| !parts.given.contains(term)) {
            parts.reach.retain(|term| !parts.given.contains(term));
        }
        parts
    }
}

fn list<'a>(words: impl Iterator<Item = Cow<'a, str>>) -> String {
    let mut met = HashSet::new();
    words.filter(|word| met.insert(word.clone())).take(MOST_ENTRIES).collect::<Vec<_>>().join(", ")
}

fn reach(answer: &str) -> Option<String> {
    let program = program(answer);
    if !program.is_empty() {
        return Some(start(&program, MOST_OF_PROGRAM).to_string());
    }
    let said = sentences(answer).last().unwrap_or_else(|| answer.trim());
    (!said.is_empty()).then(|| end(said, MOST_OF_SENTENCE).to_string())
}

fn program(text: &str) -> String {
    let mut blocks = Blocks::default();
    let is_code = |line: &&str| blocks.read(line).is_none() && blocks.is_open() && !line.trim().is_empty();
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

fn goal(question: &str) -> &str {
    let asks = sentences(question).filter(|sentence| sentence.ends_with(['?', '？', '؟'])).last();
    asks.or_else(|| sentences(question).next()).unwrap_or_default()
}

/// Returns the sentences with a letter or a digit. They end at line ends, after `.`, `!` and `?` before a space, and
/// after the CJK and Devanagari forms, which need no space.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.lines().flat_map(|line| line.split_inclusive(['。', '！', '？', '।']));
    let pieces = pieces.flat_map(|piece| piece.split_inclusive(". ")).flat_map(|piece| piece.split_inclusive("! "));
    let pieces = pieces.flat_map(|piece| piece.split_inclusive("? ")).map(str::trim);
    pieces.filter(|piece| piece.contains(char::is_alphanumeric))
}

fn start(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn end(text: &str, most: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(most))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentences_and_lists_are_cut() {
        let long = (0..300).map(|i| format!("{i}é")).collect::<Vec<_>>().join(" ");
        let thought = write(&long, &format!("{long}\n{long}")).unwrap();
        assert!(thought.lines().all(|line| line.len() < 300), "{thought}");
        assert!(thought.starts_with("goal: 0é 1é") && thought.ends_with("299é"), "{thought}");
    }

    #[test]
    fn a_thought_is_read_by_its_parts() {
        let parts = ThoughtTerms::read("goal: How many of 60?\ngiven: 61, 62\nthrough: 63\nreach: 61 of 64\nand 65");
        let has = |set: &HashSet<Cow<str>>, terms: &[&str]| terms.iter().all(|term| set.contains(*term));
        assert!(has(&parts.given, &["60", "61", "62"]) && has(&parts.wanted, &["61", "63", "64", "65"]), "{parts:?}");
        assert!(has(&parts.reach, &["64", "65"]) && !parts.reach.contains("61"), "{parts:?}");
        assert!(ThoughtTerms::read("given: 61\nreach: 61").reach.contains("61"));
        assert!(ThoughtTerms::read("reach: def f(x):\n    a_1 = 30\n    return a_1").reach.contains("return a_1"));
        assert!(ThoughtTerms::read("Add 61.\n\nThen it is 96.").reach.contains("61"));
    }
}
