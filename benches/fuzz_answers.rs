//! Fuzzes the verification of answers: sequences, repetitions and nestings of LaTeX pieces up to a megabyte, and edited
//! golden answers. It fails if a verdict panics or takes more than 50 ms of CPU time, or if the process takes more than
//! 100 MB.
//!
//! `cargo bench --package asap-verify --locked --bench fuzz_answers -- 3600` runs for an hour; the default is ten
//! seconds. A second number is the seed.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench may panic and print")]

use std::path::Path;
use std::time::{Duration, Instant};

use asap_verify::verify;
use cpu_time::ProcessTime;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::Deserialize;

#[path = "common/memory.rs"]
mod memory;

const MOST_TIME: Duration = Duration::from_millis(50);
const MOST_BYTES: u64 = 100_000_000;
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

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let end = Instant::now() + Duration::from_secs(numbers.next().unwrap_or(10));
    let mut answers = Draws::new(numbers.next().unwrap_or(0));
    let (mut slowest, mut pairs, mut accepted) = (Duration::ZERO, 0_u64, 0_u64);
    let begun = ProcessTime::now();
    while Instant::now() < end {
        let gold = answers.next();
        let other = if answers.below(3) == 0 { gold.clone() + &answers.pieces(1) } else { answers.next() };
        let response = if answers.below(8) == 0 { other } else { format!("So \\boxed{{{other}}}") };
        let clock = ProcessTime::now();
        accepted += u64::from(verify(&gold, &response));
        let taken = clock.elapsed();
        pairs += 1;
        if taken > slowest {
            slowest = taken;
            let head = |text: &str| text.chars().take(60).collect::<String>();
            let (expected, found) = (head(&gold), head(&response));
            println!(
                "{:7.3} ms  {} bytes {expected:?} | {} bytes {found:?}",
                millis(taken),
                gold.len(),
                response.len()
            );
            assert!(taken <= MOST_TIME, "a verdict took more than {MOST_TIME:?} of CPU time");
        }
    }
    let peak = memory::peak();
    println!(
        "{pairs} pairs, {accepted} equal, {:.0} CPU s: slowest verdict {:.1} ms, peak memory {:.0} MB",
        begun.elapsed().as_secs_f64(),
        millis(slowest),
        peak as f64 / 1e6
    );
    assert!(peak <= MOST_BYTES, "the peak memory of {peak} bytes is above {MOST_BYTES} bytes");
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
