//! Fuzzes the verification of answers: sequences, repetitions and nestings of LaTeX pieces up to a megabyte, and edited
//! golden answers. No verdict may panic, and the process must stay below 100 MB.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use asap_verify::verify;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::Deserialize;

const PAIRS: u64 = 4_000;
const SEEDS: u64 = 2;
const MOST_KILOBYTES: u64 = 100_000;
/// The longest answer, in bytes.
const LONGEST: usize = 1_000_000;

/// Pieces of answers: numbers, names, signs, brackets, words.
const PIECES: &str = r"1 2 7 12 0.5 1,234 3. 99999999999999999999 x y n e i a_1 + - \cdot / ^ ^2 ^{ _ _{ } { ( ) [ ] \{ \} \left( \right] |
    \left| \right| \frac \frac{1}{2} \frac12 \dfrac{ }{ \sqrt \sqrt[3]{ \pi \sin \cos \tan \arctan \ln \exp \log_2 \text{ \text{cm}
    \text{and} \text{(B)} , ; or and = < > \le \ge \ne \in \cup \cap \setminus \infty \pm % \% \$ ^\circ ! \binom{ \mathbb{R} \pmod{
    \begin{pmatrix} \end{pmatrix} \begin{cases} \end{cases} & \\ \overline{3} . \overline \bar : 0. \boxed{ é − ٥ ² \ $ k\in\mathbb{Z}
    E5 E99999 9^ 9^{9 word \lfloor \rfloor \lceil \rceil \emptyset \approx \equiv \ldots x^{ x_{ \left\{ \displaystyle \mathrm{
    <think> </think> #### answer is **";

/// Openings with their closings.
const BRACKETS: &str = r"( ) [ ] { } \{ \} \left( \right) \frac{1}{1+ } \frac{ }{x} \sqrt{ } \text{ } \boxed{ } x^{ } 9^{ }
    \sin( ) | |";

#[derive(Deserialize)]
struct Golden {
    gold: String,
    response: String,
}

struct Draws {
    dice: ChaCha8Rng,
    pieces: Vec<&'static str>,
    brackets: Vec<[&'static str; 2]>,
    goldens: Vec<String>,
}

impl Draws {
    fn new(seed: u64) -> Self {
        let read = |name: &str| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens").join(name);
            std::fs::read_to_string(path).unwrap()
        };
        let lines = read("answers.jsonl") + &read("answers_held_out.jsonl");
        let goldens = lines.lines().map(|line| serde_json::from_str::<Golden>(line).unwrap());
        let goldens = goldens.flat_map(|golden| [golden.gold, golden.response]).collect();
        let [pieces, brackets] = [PIECES, BRACKETS].map(|text| text.split_whitespace().collect::<Vec<_>>());
        let brackets = brackets.as_chunks().0.to_vec();
        Self { dice: ChaCha8Rng::seed_from_u64(seed), pieces, brackets, goldens }
    }

    fn below(&mut self, end: usize) -> usize {
        (self.dice.next_u64() % end as u64) as usize
    }

    /// Draws a number below `end`, small ones more often.
    fn small(&mut self, end: usize) -> usize {
        let share = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (end as f64).powf(share) as usize
    }

    fn pieces(&mut self, most: usize) -> String {
        let count = self.below(most + 1);
        let space = ["", " "][self.below(2)];
        let mut text = String::new();
        for _ in 0..count {
            let piece = self.below(self.pieces.len());
            text += self.pieces[piece];
            text += space;
        }
        text
    }

    fn repeated(&mut self) -> String {
        let part = self.pieces(4);
        let times = self.small(LONGEST / part.len().max(1));
        self.pieces(3) + &part.repeat(times) + &self.pieces(3)
    }

    fn nested(&mut self) -> String {
        let bracket = self.below(self.brackets.len());
        let [open, close] = self.brackets[bracket];
        let depth = self.small(LONGEST / (open.len() + close.len()));
        let closed = if self.below(4) == 0 { self.small(depth + 1) } else { depth };
        open.repeat(depth) + &self.pieces(6) + &close.repeat(closed)
    }

    /// Returns a golden answer or response with some characters removed, inserted or replaced.
    fn changed(&mut self) -> String {
        let mut letters: Vec<char> = self.golden().chars().collect();
        for _ in 0..=self.below(6) {
            let at = self.below(letters.len() + 1);
            match self.below(4) {
                0 => letters.truncate(at.max(1)),
                1 => letters.splice(at..at, self.pieces(2).chars().collect::<Vec<_>>()).for_each(drop),
                2 => letters.splice(at..at, self.golden().chars().take(40).collect::<Vec<_>>()).for_each(drop),
                _ => letters
                    .splice(at..letters.len().min(at + 1), [char::from(b'0' + self.below(10) as u8)])
                    .for_each(drop),
            }
        }
        letters.into_iter().collect()
    }

    fn golden(&mut self) -> String {
        let golden = self.below(self.goldens.len());
        self.goldens[golden].clone()
    }

    fn next(&mut self) -> String {
        match self.below(20) {
            0 => self.repeated(),
            1 => self.nested(),
            2..6 => self.changed(),
            6 => self.golden(),
            7..10 => self.pieces(60),
            _ => self.pieces(12),
        }
    }
}

/// The peak memory of this process, in kilobytes. 0 where the system does not report it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    peak.unwrap_or(0)
}

#[test]
fn any_text_gets_a_verdict() {
    for seed in 0..SEEDS {
        let mut answers = Draws::new(seed);
        for _ in 0..PAIRS {
            let gold = answers.next();
            let other = if answers.below(3) == 0 { gold.clone() + &answers.pieces(1) } else { answers.next() };
            let response = if answers.below(8) == 0 { other } else { format!("So \\boxed{{{other}}}") };
            verify(&gold, &response);
        }
    }
    assert!(peak() <= MOST_KILOBYTES, "the peak memory of {} kB is above {MOST_KILOBYTES} kB", peak());
}
