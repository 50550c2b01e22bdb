//! Texts with many distinct scalars, or with autojunk.

use super::alphabet::{Alphabet, Occurrences};
use super::{Block, Gap, Texts};

#[derive(Debug, Clone, Default)]
pub(super) struct Sparse {
    autojunk: bool,
    alphabet: Alphabet,
    a: Vec<u32>,
    b: Vec<u32>,
    b_counts: Vec<u32>,
    b_occurrences: Occurrences,
    a_counts: Vec<u32>,
    runs: Runs,
}

impl Sparse {
    pub(super) fn new(autojunk: bool) -> Self {
        Self { autojunk, ..Self::default() }
    }

    pub(super) fn set_b(&mut self, b: &str) {
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

    pub(super) fn set_a(&mut self, a: &str) {
        self.a.clear();
        self.a.extend(a.chars().map(|scalar| self.alphabet.get(scalar)));
    }

    fn longest_run(&mut self, part: &Gap) -> Block {
        let bound = part.bound.min(part.capacity());
        let mut best = Block { a: part.a.0, b: part.b.0, size: 0 };
        if bound == 0 {
            return best;
        }
        self.runs.begin(part.a.1 - part.a.0);
        for a in part.a.0..part.a.1 {
            self.runs.row += 1;
            let longest_before = best.size;
            // From right to left, so that a run is read before the next one overwrites it.
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

    /// Extends a run by the equal scalars around it. Only autojunk needs this: popular scalars do not start a run.
    fn extend(&self, part: &Gap, mut block: Block) -> Block {
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

impl Texts for Sparse {
    fn lengths(&self) -> (usize, usize) {
        (self.a.len(), self.b.len())
    }

    fn are_equal(&self) -> bool {
        self.a == self.b
    }

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

    fn longest(&mut self, part: &Gap) -> (Block, usize) {
        let run = self.longest_run(part);
        (self.extend(part, run), run.size)
    }
}

/// For each position of `b`, the length of the run that ends there, in the row of `a` that was last written.
#[derive(Debug, Clone, Default)]
struct Runs {
    row: u32,
    /// Row and length. An entry is valid if its row is the previous one.
    places: Vec<(u32, u32)>,
}

impl Runs {
    fn reset(&mut self, places: usize) {
        if self.places.len() <= places {
            self.places.resize(places + 1, (0, 0));
        }
    }

    fn begin(&mut self, rows: usize) {
        if u32::MAX as usize - (self.row as usize) < rows + 2 {
            self.places.fill((0, 0));
            self.row = 0;
        }
        self.row += 1;
    }

    /// Returns the length of the run that ends at `b`: one more than the run that ended just before it in the previous
    /// row.
    #[inline]
    fn extend(&mut self, b: usize) -> usize {
        let (row, before) = self.places[b];
        let size = if row == self.row - 1 { before + 1 } else { 1 };
        self.places[b + 1] = (self.row, size);
        size as usize
    }
}
