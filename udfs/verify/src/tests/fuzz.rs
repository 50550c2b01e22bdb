//! Fuzzes the verification of answers: sequences, repetitions and nestings of LaTeX pieces up to a megabyte, and edited
//! golden answers. No verdict may panic, and the process must stay below 100 MB.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{RngSeed, TestRunner};

use super::{goldens, piece};
use crate::verify;

const PAIRS: u32 = 8_000;
const MOST_KILOBYTES: u64 = 100_000;
/// The longest answer, in bytes.
const LONGEST: usize = 1_000_000;

/// More pieces: long numbers, and what begins and ends an answer.
const MORE: &str = r"99999999999999999999 E99999 9^ 9^{9 x^{ x_{ \dfrac{ }{ \cos \tan \arctan \exp \text{cm} and > \ge \cap \setminus
    \begin{cases} \end{cases} \lceil \rceil \ldots \left\{ \displaystyle \mathrm{ <think> </think> #### answer is **";

/// Openings with their closings.
const BRACKETS: &str = r"( ) [ ] { } \{ \} \left( \right) \frac{1}{1+ } \frac{ }{x} \sqrt{ } \text{ } \boxed{ } x^{ } 9^{ }
    \sin( ) | |";

fn pieces(most: usize) -> impl Strategy<Value = String> {
    let more = select(MORE.split_whitespace().collect::<Vec<_>>());
    let piece = prop_oneof![3 => piece(), 1 => more];
    (vec(piece, 0..=most), select(vec!["", " "])).prop_map(|(pieces, space)| pieces.join(space))
}

/// A number below `end`, small ones more often.
fn small(end: usize, share: f64) -> usize {
    (end as f64).powf(share) as usize
}

fn repeated() -> impl Strategy<Value = String> {
    (pieces(3), pieces(4), 0.0..1.0, pieces(3)).prop_map(|(before, part, share, after)| {
        let times = small(LONGEST / part.len().max(1), share);
        before + &part.repeat(times) + &after
    })
}

fn nested() -> impl Strategy<Value = String> {
    let words: Vec<&str> = BRACKETS.split_whitespace().collect();
    let brackets = select(words.as_chunks().0.to_vec());
    let closings = prop::option::weighted(0.25, 0.0..1.0);
    (brackets, 0.0..1.0, pieces(6), closings).prop_map(|([open, close], share, inner, closings)| {
        let depth = small(LONGEST / (open.len() + close.len()), share);
        let closed = closings.map_or(depth, |share| small(depth + 1, share));
        open.repeat(depth) + &inner + &close.repeat(closed)
    })
}

/// Golden answers and responses with some characters removed, inserted or replaced.
fn changed(goldens: Vec<String>) -> impl Strategy<Value = String> {
    let golden = select(goldens);
    let edit = (0..4, any::<Index>(), pieces(2), golden.clone(), prop::char::range('0', '9'));
    (golden, vec(edit, 1..=6)).prop_map(|(golden, edits)| {
        let mut letters: Vec<char> = golden.chars().collect();
        for (kind, at, pieces, other, digit) in edits {
            let at = at.index(letters.len() + 1);
            let (to, inserted) = match kind {
                0 => (letters.len(), String::new()),
                1 => (at, pieces),
                2 => (at, other.chars().take(40).collect()),
                _ => (letters.len().min(at + 1), digit.to_string()),
            };
            drop(letters.splice(at..to, inserted.chars()));
        }
        letters.into_iter().collect()
    })
}

fn answers() -> impl Strategy<Value = String> {
    let golden = ["answers.jsonl", "answers_held_out.jsonl"].into_iter().flat_map(goldens);
    let goldens: Vec<String> = golden.flat_map(|golden| [golden.gold, golden.response]).collect();
    prop_oneof![
        1 => repeated(),
        1 => nested(),
        4 => changed(goldens.clone()),
        1 => select(goldens),
        3 => pieces(60),
        10 => pieces(12),
    ]
}

/// The peak memory of this process, in kilobytes. 0 where the system does not report it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    peak.unwrap_or(0)
}

#[test]
fn any_text_gets_a_verdict() {
    let always_the_same = ProptestConfig { rng_seed: RngSeed::Fixed(0), ..ProptestConfig::with_cases(PAIRS) };
    // One gold in three is also the response, with another piece at its end; one response in eight has no box.
    let pairs = (answers(), answers(), pieces(1), 0..3, 0..8);
    let verified = TestRunner::new(always_the_same).run(&pairs, |(gold, other, added, is_other, is_boxed)| {
        let other = if is_other == 0 { gold.clone() + &added } else { other };
        let response = if is_boxed == 0 { other } else { format!("So \\boxed{{{other}}}") };
        verify(&gold, &response);
        Ok(())
    });
    verified.unwrap();
    assert!(peak() <= MOST_KILOBYTES, "the peak memory of {} kB is above {MOST_KILOBYTES} kB", peak());
}
