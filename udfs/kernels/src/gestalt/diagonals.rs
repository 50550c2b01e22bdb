//! The longest common run of two texts, found along many diagonals in parallel.
//!
//! Row by row through `a`, each diagonal counts consecutive equal symbols. A vector register holds one counter per
//! byte, and a row costs one comparison, one addition and one maximum for all of them. Rows are processed in strips, so
//! that the counters stay in registers and a search can end after a strip.

use super::Block;
use crate::vectorized;

pub(super) const LANES: usize = 128;
/// Rows of the first strip (few, since many searches end there) and of the longest one.
const FIRST_ROWS: usize = 8;
const MOST_ROWS: usize = 32;
const OUTSIDE: u8 = u8::MAX;

#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    padded: Vec<u8>,
    len: usize,
}

impl Columns {
    pub(super) fn set(&mut self, b: &[u8]) {
        self.len = b.len();
        self.padded.clear();
        self.padded.resize(MOST_ROWS, OUTSIDE);
        self.padded.extend_from_slice(b);
        self.padded.resize(MOST_ROWS + b.len() + LANES + MOST_ROWS, OUTSIDE);
    }

    pub(super) fn b(&self) -> &[u8] {
        &self.padded[MOST_ROWS..][..self.len]
    }

    /// Returns the symbols that `LANES` diagonals meet in `rows` rows, at most `MOST_ROWS`. The first diagonal meets
    /// column `first - left` in the first row.
    pub(super) fn met_from(&self, first: usize, left: usize, rows: usize) -> &[u8] {
        &self.padded[MOST_ROWS + first - left..][..LANES + rows - 1]
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Diagonals {
    /// For each diagonal, starting at the bottom left, the length of the run that ends in the last row.
    lengths: Vec<u8>,
}

impl Diagonals {
    /// Returns the longest run of equal symbols, or one of size 0. Ties go to the first in `a`, then the first in `b`.
    /// The caller guarantees that no run is longer than `bound`, at most 255; the search ends when it finds one that
    /// long.
    pub(super) fn longest_run(&mut self, a: &[u8], columns: &Columns, bound: usize) -> Block {
        debug_assert!(bound <= u8::MAX as usize);
        self.lengths.clear();
        self.lengths.resize(a.len() + columns.len + LANES, 0);
        vectorized!(self.search(a, columns, bound))
    }

    #[inline(always)]
    fn search(&mut self, a: &[u8], columns: &Columns, bound: usize) -> Block {
        let mut best = Block { a: 0, b: 0, size: 0 };
        let (mut top, mut rows) = (0, FIRST_ROWS);
        while top < a.len() && best.size < bound {
            let strip = top..a.len().min(top + rows);
            top = strip.end;
            rows = MOST_ROWS.min(2 * rows);
            best = self.best_with_strip(a, columns, strip, best);
        }
        best
    }

    /// Follows all diagonals through a strip of rows; `best` is the best run above it.
    #[inline(always)]
    fn best_with_strip(&mut self, a: &[u8], columns: &Columns, strip: std::ops::Range<usize>, best: Block) -> Block {
        let above = best.size;
        let mut best = best;
        // The first diagonal is the one that enters `b` in the last row.
        let left = strip.len() - 1;
        let bottom_left = a.len() - strip.end;
        for first in (0..columns.len + left).step_by(LANES) {
            let met = columns.met_from(first, left, strip.len());
            let Some(lengths) = self.lengths[bottom_left + first..].first_chunk_mut() else { break };
            let before = *lengths;
            let most = count(&a[strip.clone()], met, lengths);
            // A run of the same length as one found in this strip may end in an earlier row.
            let least = if best.size > above { best.size } else { above + 1 } as u8;
            if !most.iter().fold(false, |any, size| any | (*size >= least)) {
                continue;
            }
            let size = most.iter().fold(0, |most, size| most.max(*size));
            if let Some((row, lane)) = first_of_size(size, &a[strip.clone()], met, before) {
                let size = size as usize;
                let found = Block { a: strip.start + row + 1 - size, b: first + lane + row + 1 - left - size, size };
                if size > best.size || found.a < best.a {
                    best = found;
                }
            }
        }
        best
    }
}

#[inline(always)]
fn count(rows: &[u8], met: &[u8], lengths: &mut [u8; LANES]) -> [u8; LANES] {
    let (mut length, mut most) = (*lengths, [0; LANES]);
    for (symbol, columns) in rows.iter().zip(met.array_windows()) {
        length = lengthened(*symbol, columns, length);
        for lane in 0..LANES {
            most[lane] = most[lane].max(length[lane]);
        }
    }
    *lengths = length;
    most
}

#[inline(always)]
fn first_of_size(size: u8, rows: &[u8], met: &[u8], mut length: [u8; LANES]) -> Option<(usize, usize)> {
    for (row, (symbol, columns)) in rows.iter().zip(met.array_windows()).enumerate() {
        length = lengthened(*symbol, columns, length);
        if length.iter().fold(false, |any, length| any | (*length == size)) {
            return length.iter().position(|length| *length == size).map(|lane| (row, lane));
        }
    }
    None
}

#[inline(always)]
fn lengthened(symbol: u8, columns: &[u8; LANES], mut length: [u8; LANES]) -> [u8; LANES] {
    for lane in 0..LANES {
        length[lane] = if columns[lane] == symbol { length[lane].wrapping_add(1) } else { 0 };
    }
    length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_definition(a: &[u8], b: &[u8]) -> (usize, usize, usize) {
        let size_at = |i: usize, j: usize| a[i..].iter().zip(&b[j..]).take_while(|(a, b)| a == b).count();
        let starts = (0..a.len()).flat_map(|i| (0..b.len()).map(move |j| (i, j)));
        starts.fold((0, 0, 0), |best, (i, j)| if size_at(i, j) > best.0 { (size_at(i, j), i, j) } else { best })
    }

    proptest! {
        #[test]
        fn finds_the_first_of_the_longest(a in "[a-c]{0,150}", b in "[a-c]{0,300}", above in 0..3usize) {
            let mut columns = Columns::default();
            columns.set(b.as_bytes());
            prop_assert_eq!(columns.b(), b.as_bytes());
            let longest = by_definition(a.as_bytes(), b.as_bytes());
            let found = Diagonals::default().longest_run(a.as_bytes(), &columns, longest.0 + above);
            prop_assert_eq!((found.size, found.a, found.b), longest);
        }
    }
}
