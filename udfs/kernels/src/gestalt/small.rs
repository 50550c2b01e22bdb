//! All blocks of two short texts, found in a bit matrix.

use super::{Block, Gap};
use crate::vectorized;

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
        vectorized!(self.find_ends(&equal, bound));
        self.matched_in(&Gap { a: (0, a.len()), b: (0, b.len()), bound: self.ends.len() })
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

    fn matched_in(&self, part: &Gap) -> usize {
        let Some(block) = self.longest(part) else { return 0 };
        part.around(block, block.size).iter().fold(block.size, |matched, part| matched + self.matched_in(part))
    }

    fn longest(&self, part: &Gap) -> Option<Block> {
        (1..=part.bound.min(part.capacity())).rev().find_map(|size| {
            let columns = (u64::MAX >> (SIDE - part.b.1)) & (u64::MAX << (part.b.0 + size - 1));
            let first = part.a.0 + size - 1;
            let rows = &self.ends[size - 1][first..part.a.1];
            let row = rows.iter().position(|row| row & columns != 0)?;
            let column = (rows[row] & columns).trailing_zeros() as usize;
            Some(Block { a: first + row + 1 - size, b: column + 1 - size, size })
        })
    }
}
