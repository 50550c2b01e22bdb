//! Finds questions with many answers, such as a template that replaced the real questions.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use asap_kernels::front_end::Flag;

/// Questions counted at the same time. A question of more than one in 256 rows is among them at the end.
const COUNTED: usize = 256;
const ANSWERS: usize = 16;
const SHOWN: usize = 60;

/// Counts rows per question in bounded memory (Misra and Gries 1982: counts may be too low, never too high).
#[derive(Debug, Default)]
pub struct Repeats {
    hasher: RandomState,
    rows: u64,
    counted: HashMap<u64, Repeated>,
}

#[derive(Debug)]
struct Repeated {
    rows: u64,
    answers: HashSet<u64>,
    shown: String,
}

impl Repeats {
    pub(crate) fn take(&mut self, question: &str, answer: &str) {
        self.rows += 1;
        let (key, answer) = (self.hasher.hash_one(question), self.hasher.hash_one(answer));
        if let Some(known) = self.counted.get_mut(&key) {
            known.rows += 1;
            if known.answers.len() < ANSWERS {
                known.answers.insert(answer);
            }
        } else if self.counted.len() < COUNTED {
            let words = question.split_whitespace().take(SHOWN).collect::<Vec<_>>().join(" ");
            let shown = words.chars().take(SHOWN).collect();
            self.counted.insert(key, Repeated { rows: 1, answers: HashSet::from([answer]), shown });
        } else {
            self.counted.retain(|_, counted| {
                counted.rows -= 1;
                counted.rows > 0
            });
        }
    }

    /// Describes the most frequent question, if one in `share` rows has it, with `answers` (up to 16) different
    /// answers.
    pub(crate) fn note(&self, answers: usize, share: u64) -> Option<String> {
        let most = self.counted.values().max_by_key(|counted| counted.rows)?;
        let Repeated { rows, answers: found, shown } = most;
        if found.len() < answers.min(ANSWERS) || rows * share < self.rows {
            return None;
        }
        let or_more = if found.len() == ANSWERS { "or more " } else { "" };
        Some(format!(
            "at least {rows} of {} rows have one question, \"{shown}…\", with {} {or_more}different answers: if it is a template \
             and not the question, name another column with {}",
            self.rows,
            found.len(),
            Flag("--columns")
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::corpus::shape::repeats::*;

    #[test]
    fn one_question_of_many_answers_is_found_among_many_questions() {
        let mut repeats = Repeats::default();
        for row in 0..10_000 {
            let question = if row % 10 == 0 { "Example:\n\nFind x".to_string() } else { format!("q{row}") };
            repeats.take(&question, &format!("a{row}"));
        }
        let note = repeats.note(8, 20).unwrap();
        assert!(note.contains("of 10000 rows") && note.contains("\"Example: Find x…\", with 16 or more"), "{note}");
        assert_eq!(repeats.note(8, 9), None);
        assert!(repeats.counted.len() <= COUNTED);
    }

    #[test]
    fn one_question_of_one_answer_is_a_sampled_one() {
        let mut repeats = Repeats::default();
        (0..100).for_each(|row| repeats.take("q", if row % 2 == 0 { "a" } else { "b" }));
        assert_eq!(repeats.note(8, 20), None);
        assert!(repeats.note(2, 1).is_some());
        assert_eq!(Repeats::default().note(0, 1), None);
    }
}
