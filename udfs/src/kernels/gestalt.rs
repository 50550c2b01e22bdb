//! Gestalt (Ratcliff/Obershelp) similarity, exactly as Python's `difflib.SequenceMatcher` computes it.
//!
//! The similarity of two texts is 2M / (|a| + |b|) over Unicode scalars, where M is the total size of the matching
//! blocks: the longest common block, then the same to its left and to its right. Of equally long blocks the one that
//! starts first in `a` is taken, and of those the one that starts first in `b`.
//!
//! difflib searches every part anew. Here a part remembers how long its block can be at most: no longer than the block
//! that its parent found, and shorter than that to the left of it, since the search goes through `a` from the left. A
//! search that meets its bound ends there. Repetitive texts, cubic in difflib, cost |a| · |b| · √|a| at worst.

use super::alphabet::{Alphabet, Occurrences};

/// Compares texts with one text `b`, which is prepared once; all memory is used again for the next.
#[derive(Debug)]
pub struct Gestalt {
    autojunk: bool,
    alphabet: Alphabet,
    a: Vec<u32>,
    b: Vec<u32>,
    /// How often each symbol of `b` occurs in it.
    b_counts: Vec<u32>,
    b_occurrences: Occurrences,
    runs: Runs,
    parts: Vec<Part>,
    a_counts: Vec<u32>,
}

/// Scalars of `a` and of `b` whose blocks are still to be found.
#[derive(Debug, Clone, Copy)]
struct Part {
    a: (usize, usize),
    b: (usize, usize),
    /// No run of symbols that are looked for is longer than this here.
    bound: usize,
}

impl Part {
    /// The most scalars that can match here.
    fn capacity(&self) -> usize {
        (self.a.1 - self.a.0).min(self.b.1 - self.b.0)
    }
}

/// Equal scalars at `a` and at `b`.
#[derive(Debug, Clone, Copy)]
struct Block {
    a: usize,
    b: usize,
    size: usize,
}

impl Gestalt {
    /// With `autojunk`, scalars that make up more than 1 % of a `b` of at least 200 do not start a block, as is
    /// difflib's default; without it every scalar counts, as the paper describes the measure.
    pub fn new(autojunk: bool) -> Self {
        Self {
            autojunk,
            alphabet: Alphabet::default(),
            a: Vec::new(),
            b: Vec::new(),
            b_counts: Vec::new(),
            b_occurrences: Occurrences::default(),
            runs: Runs::default(),
            parts: Vec::new(),
            a_counts: Vec::new(),
        }
    }

    /// The text that the next texts are compared with.
    pub fn set_b(&mut self, b: &str) {
        self.alphabet.clear();
        self.b.clear();
        self.b.extend(b.chars().map(|scalar| self.alphabet.add(scalar)));
        self.b_counts.clear();
        self.b_counts.resize(self.alphabet.len(), 0);
        for &symbol in &self.b {
            self.b_counts[symbol as usize] += 1;
        }
        let popular_from = if self.autojunk && self.b.len() >= 200 { self.b.len() / 100 + 2 } else { usize::MAX };
        self.b_occurrences.rebuild(&self.b, &self.b_counts, popular_from);
        self.runs.reset(self.b.len());
    }

    /// The similarity of `a` and the text given to [`set_b`](Self::set_b), from 0 to 1; 1 if both are empty.
    pub fn ratio(&mut self, a: &str) -> f64 {
        self.set_a(a);
        let matched = self.matched(|_| true).unwrap_or_default();
        ratio_of(matched, self.a.len() + self.b.len())
    }

    /// [`ratio`](Self::ratio) if it is at least `least`, found without a comparison where lengths or letters exclude it.
    pub fn ratio_of_at_least(&mut self, a: &str, least: f64) -> Option<f64> {
        self.set_a(a);
        let scalars = self.a.len() + self.b.len();
        let reaches = |matched| ratio_of(matched, scalars) >= least;
        if !reaches(self.a.len().min(self.b.len())) || !reaches(self.common_scalars()) {
            return None;
        }
        let matched = self.matched(reaches)?;
        reaches(matched).then(|| ratio_of(matched, scalars))
    }

    fn set_a(&mut self, a: &str) {
        self.a.clear();
        self.a.extend(a.chars().map(|scalar| self.alphabet.get(scalar)));
    }

    /// How many scalars both texts have in common wherever they stand: at least as many as match.
    fn common_scalars(&mut self) -> usize {
        self.a_counts.clear();
        self.a_counts.resize(self.alphabet.len(), 0);
        for &symbol in &self.a {
            if let Some(count) = self.a_counts.get_mut(symbol as usize) {
                *count += 1;
            }
        }
        self.a_counts.iter().zip(&self.b_counts).map(|(a, b)| *a.min(b) as usize).sum()
    }

    /// The total size of the matching blocks; None as soon as what can still match does not satisfy `reaches`.
    fn matched(&mut self, reaches: impl Fn(usize) -> bool) -> Option<usize> {
        if self.a == self.b {
            return Some(self.a.len());
        }
        let whole = Part { a: (0, self.a.len()), b: (0, self.b.len()), bound: usize::MAX };
        let mut matched = 0;
        let mut possible = whole.capacity();
        self.parts.clear();
        self.parts.push(whole);
        while let Some(part) = self.parts.pop() {
            let run = self.longest_run(&part);
            let block = self.extend(&part, run);
            possible -= part.capacity();
            if block.size > 0 {
                let left = Part { a: (part.a.0, block.a), b: (part.b.0, block.b), bound: run.size.saturating_sub(1) };
                let right =
                    Part { a: (block.a + block.size, part.a.1), b: (block.b + block.size, part.b.1), bound: run.size };
                matched += block.size;
                possible += block.size + left.capacity() + right.capacity();
                self.parts.extend([left, right].into_iter().filter(|part| part.capacity() > 0));
            }
            if !reaches(possible) {
                return None;
            }
        }
        Some(matched)
    }

    /// The longest run of symbols that are looked for; without one, an empty run at the part's start.
    fn longest_run(&mut self, part: &Part) -> Block {
        let bound = part.bound.min(part.capacity());
        let mut best = Block { a: part.a.0, b: part.b.0, size: 0 };
        if bound == 0 {
            return best;
        }
        self.runs.begin(part.a.1 - part.a.0);
        for a in part.a.0..part.a.1 {
            self.runs.next_row();
            let longest_before = best.size;
            // From right to left, so that a run is read before the next one is written over it.
            for &b in self.b_occurrences.of(self.a[a], part.b).iter().rev() {
                let b = b as usize;
                let size = self.runs.extend(b);
                if size > best.size || (size == best.size && best.size > longest_before) {
                    best = Block { a: a + 1 - size, b: b + 1 - size, size };
                }
            }
            if best.size == bound {
                break;
            }
        }
        best
    }

    /// The run with the equal scalars around it. They matter with autojunk alone: popular ones do not make a run.
    fn extend(&self, part: &Part, mut block: Block) -> Block {
        if !self.autojunk {
            return block;
        }
        while block.a > part.a.0 && block.b > part.b.0 && self.a[block.a - 1] == self.b[block.b - 1] {
            block = Block { a: block.a - 1, b: block.b - 1, size: block.size + 1 };
        }
        while block.a + block.size < part.a.1
            && block.b + block.size < part.b.1
            && self.a[block.a + block.size] == self.b[block.b + block.size]
        {
            block.size += 1;
        }
        block
    }
}

fn ratio_of(matched: usize, scalars: usize) -> f64 {
    if scalars == 0 { 1.0 } else { 2.0 * matched as f64 / scalars as f64 }
}

/// For each place of `b` the length of the run that ends there, in the row of `a` that was last written.
#[derive(Debug, Default)]
struct Runs {
    row: u32,
    /// Row and length; a place is valid if its row is the one before the current one.
    places: Vec<(u32, u32)>,
}

impl Runs {
    fn reset(&mut self, places: usize) {
        if self.places.len() <= places {
            self.places.resize(places + 1, (0, 0));
        }
    }

    /// Forgets all runs; `rows` follow.
    fn begin(&mut self, rows: usize) {
        if u32::MAX as usize - (self.row as usize) < rows + 2 {
            self.places.fill((0, 0));
            self.row = 0;
        }
        self.row += 1;
    }

    fn next_row(&mut self) {
        self.row += 1;
    }

    /// The length of the run that ends at `b`, one longer than the one that ended before it in the row before.
    #[inline]
    fn extend(&mut self, b: usize) -> usize {
        let (row, before) = self.places[b];
        let size = if row == self.row - 1 { before + 1 } else { 1 };
        self.places[b + 1] = (self.row, size);
        size as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// difflib's algorithm, as slow as it is.
    fn matched_by_definition(a: &[char], b: &[char], popular: &dyn Fn(char) -> bool) -> usize {
        let (mut start_a, mut start_b, mut size) = (0, 0, 0);
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for (i, scalar) in a.iter().enumerate() {
            let mut next = HashMap::new();
            for j in (0..b.len()).filter(|&j| b[j] == *scalar && !popular(b[j])) {
                let length = j.checked_sub(1).and_then(|j| lengths.get(&j)).copied().unwrap_or(0) + 1;
                next.insert(j, length);
                if length > size {
                    (start_a, start_b, size) = (i + 1 - length, j + 1 - length, length);
                }
            }
            lengths = next;
        }
        while start_a > 0 && start_b > 0 && a[start_a - 1] == b[start_b - 1] {
            (start_a, start_b, size) = (start_a - 1, start_b - 1, size + 1);
        }
        while start_a + size < a.len() && start_b + size < b.len() && a[start_a + size] == b[start_b + size] {
            size += 1;
        }
        if size == 0 {
            return 0;
        }
        size + matched_by_definition(&a[..start_a], &b[..start_b], popular)
            + matched_by_definition(&a[start_a + size..], &b[start_b + size..], popular)
    }

    fn ratio_by_definition(a: &str, b: &str, autojunk: bool) -> f64 {
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        let count = |scalar| b.iter().filter(|other| **other == scalar).count();
        let popular = |scalar| autojunk && b.len() >= 200 && count(scalar) > b.len() / 100 + 1;
        ratio_of(matched_by_definition(&a, &b, &popular), a.len() + b.len())
    }

    fn ratio(a: &str, b: &str, autojunk: bool) -> f64 {
        let mut gestalt = Gestalt::new(autojunk);
        gestalt.set_b(b);
        gestalt.ratio(a)
    }

    #[test]
    fn known_values() {
        assert_eq!(ratio("", "", false), 1.0);
        assert_eq!(ratio("", "a", false), 0.0);
        assert_eq!(ratio("abcd", "bcde", false), 0.75);
        // The first of equally long blocks is taken, so the order of the arguments matters.
        assert_eq!(ratio("tide", "diet", false), 0.25);
        assert_eq!(ratio("diet", "tide", false), 0.5);
    }

    #[test]
    fn repetitive_texts_are_affordable() {
        let (a, b) = ("a".repeat(20_000), "ab".repeat(10_000));
        assert_eq!(ratio(&a, &b, false), 0.5);
        let (a, b) = ("ab".repeat(10_000), "ba".repeat(10_000));
        assert_eq!(ratio(&a, &b, false), 1.0 - 1.0 / 20_000.0);
    }

    fn texts() -> impl Strategy<Value = (String, String)> {
        prop_oneof![
            ("[ab]{0,40}", "[ab]{0,40}"),
            ("[abcdé漢]{0,60}", "[abcdé漢]{0,60}"),
            ("[a-z ]{150,300}", "[a-m ]{190,320}"),
            ("(ab|ba|c){60,140}", "(ab|bc|a){60,140}"),
        ]
    }

    proptest! {
        #[test]
        fn equals_difflib_with_and_without_autojunk((a, b) in texts()) {
            prop_assert_eq!(ratio(&a, &b, false), ratio_by_definition(&a, &b, false));
            prop_assert_eq!(ratio(&a, &b, true), ratio_by_definition(&a, &b, true));
            prop_assert_eq!(ratio(&b, &b, true), 1.0);
        }

        #[test]
        fn stopping_early_never_changes_the_answer(pairs in prop::collection::vec(texts(), 1..4), least in 0.0..1.0f64) {
            let mut gestalt = Gestalt::new(false);
            for (_, b) in &pairs {
                gestalt.set_b(b);
                for (a, _) in &pairs {
                    let ratio = gestalt.ratio(a);
                    prop_assert_eq!(gestalt.ratio_of_at_least(a, least), (ratio >= least).then_some(ratio));
                    prop_assert_eq!(gestalt.ratio_of_at_least(a, ratio), Some(ratio));
                }
            }
        }
    }
}
