//! Texts with few distinct scalars, one byte each.

use super::diagonals::{Columns, Diagonals};
use super::long::{self, LONG};
use super::small::{SIDE, Small};
use super::{Block, Gap, Texts};

/// The symbol of the first non-ASCII scalar. An ASCII scalar is its own symbol.
const OTHERS: u8 = 128;
/// The symbol of a scalar of `a` that is not in `b`. The next symbol, `u8::MAX`, is never used for a scalar.
const ABSENT: u8 = u8::MAX - 1;

#[derive(Debug, Clone, Default)]
pub(super) struct Dense {
    others: Vec<char>,
    a: Vec<u8>,
    b: Vec<u8>,
    b_counts: Vec<u32>,
    columns: Columns,
    diagonals: Diagonals,
    small: Small,
}

impl Dense {
    /// Stores `b` and returns true if its distinct scalars fit into one byte.
    pub(super) fn set_b(&mut self, b: &str) -> bool {
        self.others.clear();
        if !b.is_ascii() {
            self.others.extend(b.chars().filter(|scalar| !scalar.is_ascii()));
            self.others.sort_unstable();
            self.others.dedup();
        }
        if self.others.len() > (ABSENT - OTHERS) as usize {
            return false;
        }
        to_symbols(b, &self.others, &mut self.b);
        self.b_counts = counts(&self.b).to_vec();
        true
    }

    pub(super) fn set_a(&mut self, a: &str) {
        to_symbols(a, &self.others, &mut self.a);
    }
}

fn to_symbols(text: &str, others: &[char], symbols: &mut Vec<u8>) {
    symbols.clear();
    if text.is_ascii() {
        symbols.extend_from_slice(text.as_bytes());
        return;
    }
    let symbol = |scalar: char| match others.binary_search(&scalar) {
        _ if scalar.is_ascii() => scalar as u8,
        Ok(place) => OTHERS + place as u8,
        Err(_) => ABSENT,
    };
    symbols.extend(text.chars().map(symbol));
}

fn counts(text: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    for symbol in text {
        counts[*symbol as usize] += 1;
    }
    counts
}

impl Texts for Dense {
    fn lengths(&self) -> (usize, usize) {
        (self.a.len(), self.b.len())
    }

    fn are_equal(&self) -> bool {
        self.a == self.b
    }

    fn common_scalars(&mut self) -> usize {
        counts(&self.a).iter().zip(&self.b_counts).map(|(a, b)| *a.min(b) as usize).sum()
    }

    fn matched_at_once(&mut self, part: &Gap) -> Option<usize> {
        let (a, b) = (&self.a[part.a.0..part.a.1], &self.b[part.b.0..part.b.1]);
        (a.len() <= SIDE && b.len() <= SIDE).then(|| self.small.matched(a, b, part.bound))
    }

    fn longest(&mut self, part: &Gap) -> (Block, usize) {
        let (a, b) = (&self.a[part.a.0..part.a.1], &self.b[part.b.0..part.b.1]);
        let bound = part.bound.min(part.capacity());
        self.columns.set(b);
        let long = if bound < LONG { None } else { long::longest_run(a, &self.columns, bound) };
        let run = long.unwrap_or_else(|| self.diagonals.longest_run(a, &self.columns, bound.min(LONG - 1)));
        (Block { a: part.a.0 + run.a, b: part.b.0 + run.b, size: run.size }, run.size)
    }
}
