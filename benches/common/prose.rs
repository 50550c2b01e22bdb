//! Deterministic text like that of a reasoning model.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The most frequent first, for Zipf's law.
const WORDS: &str = include_str!("words.txt");

pub(crate) struct Prose {
    dice: ChaCha8Rng,
    words: Vec<&'static str>,
}

impl Prose {
    pub(crate) fn new() -> Self {
        Self { dice: ChaCha8Rng::seed_from_u64(42), words: WORDS.split_whitespace().collect() }
    }

    fn below(&mut self, end: usize) -> usize {
        self.dice.next_u64() as usize % end
    }

    /// Draws a number from `least` to `most`, small ones more often.
    pub(crate) fn log_uniform(&mut self, least: usize, most: usize) -> usize {
        let place = self.below(1_000_000) as f64 / 1e6;
        (least as f64 * (most as f64 / least as f64).powf(place)) as usize
    }

    fn word(&mut self) -> String {
        match self.below(12) {
            0 => self.log_uniform(1, 1_000).to_string(),
            _ => {
                let place = self.log_uniform(1, self.words.len()) - 1;
                self.words[place].to_string()
            }
        }
    }

    /// Writes sentences with at least `characters` in total.
    pub(crate) fn step(&mut self, characters: usize) -> String {
        let mut step = String::new();
        while step.len() < characters {
            if !step.is_empty() {
                step.push(' ');
            }
            let mut first = self.word();
            if let Some(letter) = first.get_mut(..1) {
                letter.make_ascii_uppercase();
            }
            step.push_str(&first);
            for _ in 0..4 + self.below(12) {
                let comma = if self.below(10) == 0 { "," } else { "" };
                step = step + comma + " " + &self.word();
            }
            step.push('.');
        }
        step
    }

    /// Leaves out or replaces `percent` of the words.
    pub(crate) fn edited(&mut self, step: &str, percent: usize) -> String {
        let mut words = Vec::new();
        for word in step.split(' ') {
            match self.below(200) {
                fate if fate < percent => {}
                fate if fate < 2 * percent => words.push(self.word()),
                _ => words.push(word.to_string()),
            }
        }
        words.join(" ")
    }

    /// Draws `size` of the numbers below `end`, ascending.
    pub(crate) fn subset(&mut self, size: usize, end: usize) -> Vec<usize> {
        let mut left = size;
        let mut chosen = Vec::new();
        for number in 0..end {
            if self.below(end - number) < left {
                chosen.push(number);
                left -= 1;
            }
        }
        chosen
    }

    /// Draws `count` of the first `different` letters.
    pub(crate) fn letters(&mut self, count: usize, different: usize) -> String {
        (0..count).map(|_| (b'a' + self.below(different) as u8) as char).collect()
    }
}
