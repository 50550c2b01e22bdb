//! All blocks of two short texts, found in a bit matrix.

use super::Block;
use crate::vectorized::vectorized;

pub(super) const SIDE: usize = 64;

/// One row per position of `a`, one bit per position of `b`.
type BitMatrix = [u64; SIDE];

#[derive(Debug, Clone)]
pub(super) struct Small {
    places: [u64; 256],
    ends: Vec<BitMatrix>,
}

impl Default for Small {
    fn default() -> Self {
        Self { places: [0; 256], ends: Vec::new() }
    }
}

#[derive(Clone, Copy)]
struct Window {
    a: (usize, usize),
    b: (usize, usize),
}

impl Small {
    /// Returns the total size of the matching blocks. No block is larger than `bound`.
    pub(super) fn matched(&mut self, a: &[u8], b: &[u8], bound: usize) -> usize {
        for (place, symbol) in b.iter().enumerate() {
            self.places[*symbol as usize] |= 1 << place;
        }
        let mut equal = [0; SIDE];
        for (row, symbol) in equal.iter_mut().zip(a) {
            *row = self.places[*symbol as usize];
        }
        for symbol in b {
            self.places[*symbol as usize] = 0;
        }
        vectorized(
            #[inline(always)]
            || self.find_ends(&equal, bound),
        );
        self.matched_in(Window { a: (0, a.len()), b: (0, b.len()) }, self.ends.len())
    }

    #[inline(always)]
    fn find_ends(&mut self, equal: &BitMatrix, bound: usize) {
        self.ends.clear();
        let mut ends = *equal;
        while self.ends.len() < bound && ends.iter().fold(0, |any, row| any | row) != 0 {
            self.ends.push(ends);
            let mut longer = [0; SIDE];
            for row in 1..SIDE {
                longer[row] = equal[row] & (ends[row - 1] << 1);
            }
            ends = longer;
        }
    }

    fn matched_in(&self, window: Window, bound: usize) -> usize {
        let Some(block) = self.longest(&window, bound) else { return 0 };
        let mut matched = block.size;
        if block.a > window.a.0 && block.b > window.b.0 {
            let left = Window { a: (window.a.0, block.a), b: (window.b.0, block.b) };
            matched += self.matched_in(left, block.size - 1);
        }
        let (a, b) = (block.a + block.size, block.b + block.size);
        if a < window.a.1 && b < window.b.1 {
            matched += self.matched_in(Window { a: (a, window.a.1), b: (b, window.b.1) }, block.size);
        }
        matched
    }

    fn longest(&self, window: &Window, bound: usize) -> Option<Block> {
        let capacity = (window.a.1 - window.a.0).min(window.b.1 - window.b.0);
        (1..=bound.min(capacity)).rev().find_map(|size| {
            let columns = (u64::MAX >> (SIDE - window.b.1)) & (u64::MAX << (window.b.0 + size - 1));
            let first = window.a.0 + size - 1;
            let rows = &self.ends[size - 1][first..window.a.1];
            let row = rows.iter().position(|row| row & columns != 0)?;
            let column = (rows[row] & columns).trailing_zeros() as usize;
            Some(Block { a: first + row + 1 - size, b: column + 1 - size, size })
        })
    }
}
