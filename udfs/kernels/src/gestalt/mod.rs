//! Gestalt (Ratcliff/Obershelp) similarity, exactly as Python's `difflib.SequenceMatcher` computes it.
//!
//! The similarity of two texts is 2M / (|a| + |b|) over Unicode scalars, where M is the total size of the matching
//! blocks: the longest common block, then recursively to its left and to its right. Equally long blocks are ranked by
//! their start in `a`, then by their start in `b`; the first one wins.
//!
//! difflib searches every part from scratch. Here each part has a bound on its block: no longer than the block of its
//! parent, and shorter than that on the left side, since the search goes through `a` from the left. A search ends when
//! it reaches its bound.
//!
//! | texts and parts | how the longest block is found |
//! |---|---|
//! | few distinct scalars (`dense`) | they are bytes, and vector instructions compare 64 pairs in parallel |
//! | … parts with a block of 64 or more (`long`) | by 8 symbols at every 57th position of `a` |
//! | … other parts (`diagonals`) | by counters along all diagonals |
//! | … parts of at most 64 by 64 (`small`) | all blocks from one bit matrix |
//! | many distinct scalars, or autojunk (`sparse`) | by the positions of each scalar in `b`, as in difflib |
//!
//! **Bound on work.** At most (3s + 9) · |a| · |b| pairs of scalars are compared, where s is the number of distinct
//! block sizes, at most √(2 · min(|a|, |b|)) since blocks do not overlap. Memory is linear in |a| + |b|. Proof: parts
//! whose search finds a block of one size, shorter than their bound, do not overlap. Among parts whose search reaches
//! the same bound, the rows of `a` that it needs do not overlap either; it reads at most twice as many, plus eight.
//! Texts of one letter, of two letters and of real steps stay near |a| · |b|, and so do texts on which difflib is cubic
//! (`aaaa…` with `abab…`).

mod alphabet;
mod dense;
mod diagonals;
mod long;
mod small;
mod sparse;

use dense::Dense;
use sparse::Sparse;

/// Compares texts with one text `b`, which is prepared once. All memory is reused.
#[derive(Debug, Clone, Default)]
pub struct Gestalt {
    autojunk: bool,
    is_dense: bool,
    dense: Dense,
    sparse: Sparse,
    b_len: usize,
    parts: Vec<Gap>,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    a: (usize, usize),
    b: (usize, usize),
    bound: usize,
}

impl Gap {
    fn capacity(&self) -> usize {
        (self.a.1 - self.a.0).min(self.b.1 - self.b.0)
    }

    /// Returns the parts to the left and to the right of a block that grew from `run` equal scalars.
    #[inline]
    fn around(&self, block: Block, run: usize) -> [Self; 2] {
        let left = Self { a: (self.a.0, block.a), b: (self.b.0, block.b), bound: run.saturating_sub(1) };
        let right = Self { a: (block.a + block.size, self.a.1), b: (block.b + block.size, self.b.1), bound: run };
        [left, right]
    }
}

#[derive(Debug, Clone, Copy)]
struct Block {
    a: usize,
    b: usize,
    size: usize,
}

trait Texts {
    fn lengths(&self) -> (usize, usize);

    fn are_equal(&self) -> bool;

    /// Counts the common scalars of both texts, at any position: an upper bound on the matching ones.
    fn common_scalars(&mut self) -> usize;

    /// Returns the total size of all blocks of a part, if it is small enough to find them together.
    fn matched_at_once(&mut self, _: &Gap) -> Option<usize> {
        None
    }

    /// Returns the longest block of a part, and the size of the run of equal scalars that it grew from.
    fn longest(&mut self, part: &Gap) -> (Block, usize);
}

impl Gestalt {
    /// With `autojunk`, scalars that make up more than 1 % of a `b` of at least 200 do not start a block (difflib's
    /// default). Without it every scalar counts, as in the paper.
    pub fn new(autojunk: bool) -> Self {
        Self { autojunk, sparse: Sparse::new(autojunk), ..Self::default() }
    }

    /// Sets the text to compare the next texts with.
    pub fn set_b(&mut self, b: &str) {
        self.b_len = b.chars().count();
        self.is_dense = !self.autojunk && self.dense.set_b(b);
        if !self.is_dense {
            self.sparse.set_b(b);
        }
    }

    /// Returns the similarity of `a` and `b`, from 0 to 1; 1 if both are empty.
    pub fn ratio(&mut self, a: &str) -> f64 {
        self.ratio_of_at_least(a, 0.0).unwrap_or_default()
    }

    /// Returns [`ratio`](Self::ratio) if it is at least `least`. Lengths and letter counts exclude most pairs early.
    pub fn ratio_of_at_least(&mut self, a: &str, least: f64) -> Option<f64> {
        let a_len = a.chars().count();
        let scalars = a_len + self.b_len;
        let reaches = |matched| ratio_of(matched, scalars) >= least;
        if !reaches(a_len.min(self.b_len)) {
            return None;
        }
        let matched = if self.is_dense {
            self.dense.set_a(a);
            matched(&mut self.dense, &mut self.parts, reaches)
        } else {
            self.sparse.set_a(a);
            matched(&mut self.sparse, &mut self.parts, reaches)
        }?;
        reaches(matched).then(|| ratio_of(matched, scalars))
    }
}

fn ratio_of(matched: usize, scalars: usize) -> f64 {
    if scalars == 0 { 1.0 } else { 2.0 * matched as f64 / scalars as f64 }
}

/// Returns the total size of the matching blocks, or None as soon as the best possible size fails `reaches`.
fn matched(texts: &mut impl Texts, parts: &mut Vec<Gap>, reaches: impl Fn(usize) -> bool) -> Option<usize> {
    let (a_len, b_len) = texts.lengths();
    if texts.are_equal() {
        return Some(a_len);
    }
    if !reaches(0) && !reaches(texts.common_scalars()) {
        return None;
    }
    let whole = Gap { a: (0, a_len), b: (0, b_len), bound: usize::MAX };
    let mut matched = 0;
    let mut possible = whole.capacity();
    parts.clear();
    parts.push(whole);
    while let Some(part) = parts.pop() {
        possible -= part.capacity();
        if let Some(here) = texts.matched_at_once(&part) {
            matched += here;
            possible += here;
        } else {
            let (block, run) = texts.longest(&part);
            if block.size > 0 {
                let around = part.around(block, run);
                matched += block.size;
                possible += block.size + around[0].capacity() + around[1].capacity();
                parts.extend(around.into_iter().filter(|part| part.capacity() > 0));
            }
        }
        if !reaches(possible) {
            return None;
        }
    }
    Some(matched)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

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
    fn repetitive_texts_are_affordable() {
        let (a, b) = ("a".repeat(20_000), "ab".repeat(10_000));
        assert_eq!(ratio(&a, &b, false), 0.5);
        let (a, b) = ("ab".repeat(10_000), "ba".repeat(10_000));
        assert_eq!(ratio(&a, &b, false), 1.0 - 1.0 / 20_000.0);
    }

    /// Texts made of pieces, so that they share blocks of every length, in parts of every size.
    fn long_texts() -> impl Strategy<Value = (String, String)> {
        let pieces = |letters: &'static str| prop::collection::vec((letters, 1..40usize), 0..30);
        let repeated = |pieces: Vec<(String, usize)>| {
            pieces.into_iter().map(|(piece, times)| piece.repeat(times)).collect::<String>()
        };
        let text = move || prop_oneof![pieces("[ab]{1,3}"), pieces("[a-eé]{1,20}")].prop_map(repeated);
        let cut = (text(), text(), 0.0..1.0f64, 0.0..1.0f64).prop_map(|(text, other, from, to)| {
            let at =
                |part: f64| text.char_indices().nth((part * text.len() as f64) as usize).map_or(text.len(), |at| at.0);
            let (from, to) = (at(from.min(to)), at(from.max(to)));
            (text.clone(), format!("{}{other}{}", &text[from..to], &text[..from]))
        });
        prop_oneof![(text(), text()), cut]
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
        fn vectors_and_places_find_the_same((a, b) in long_texts()) {
            let mut gestalt = Gestalt::new(false);
            gestalt.set_b(&b);
            prop_assert!(gestalt.is_dense);
            let by_vectors = gestalt.ratio(&a);
            gestalt.is_dense = false;
            gestalt.sparse.set_b(&b);
            prop_assert_eq!(by_vectors, gestalt.ratio(&a));
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
