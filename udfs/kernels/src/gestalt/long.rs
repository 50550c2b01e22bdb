//! Finds the longest common run of two texts from a few of its symbols, if the run is long.

use super::Block;
use super::diagonals::{Columns, LANES};
use crate::vectorized;

pub(super) const LONG: usize = 64;
const GRAM: usize = 8;
/// Rows between the grams of `a` that are looked up. Every long run contains one of these grams.
const STRIDE: usize = LONG - GRAM + 1;

/// Returns the longest run of equal symbols if it has at least `LONG`. Ties go to the first in `a`, then the first in
/// `b`. The caller guarantees that no run is longer than `bound`; the search ends when it finds a run of that length.
pub(super) fn longest_run(a: &[u8], columns: &Columns, bound: usize) -> Option<Block> {
    vectorized!(search(a, columns, bound))
}

#[inline(always)]
fn search(a: &[u8], columns: &Columns, bound: usize) -> Option<Block> {
    let b = columns.b();
    let mut best: Option<Block> = None;
    for row in (STRIDE - 1..a.len()).step_by(STRIDE) {
        let Some(gram) = a[row..].first_chunk() else { break };
        for first in (0..b.len()).step_by(LANES) {
            let starts = starts_of(gram, columns.met_from(first, 0, GRAM));
            if starts.iter().fold(0, |any, start| any | start) == 0 {
                continue;
            }
            // Most are 0, so eight are skipped at a time.
            let eights = starts.as_chunks::<8>().0.iter().enumerate().filter(|(_, starts)| **starts != [0; 8]);
            let lanes = eights.flat_map(|(eight, _)| 8 * eight..8 * eight + 8);
            for lane in lanes.filter(|lane| starts[*lane] != 0) {
                let Some(run) = run_through(a, b, row, first + lane) else { continue };
                if best.is_none_or(|best| run.size > best.size || (run.size == best.size && run.a < best.a)) {
                    best = Some(run);
                }
            }
        }
        if best.is_some_and(|best| best.size == bound) {
            break;
        }
    }
    best
}

#[inline(always)]
fn starts_of(gram: &[u8; GRAM], columns: &[u8]) -> [u8; LANES] {
    let mut starts = [1; LANES];
    for (symbol, columns) in gram.iter().zip(columns.array_windows::<LANES>()) {
        for lane in 0..LANES {
            starts[lane] &= u8::from(columns[lane] == *symbol);
        }
    }
    starts
}

#[inline(always)]
fn run_through(a: &[u8], b: &[u8], row: usize, column: usize) -> Option<Block> {
    if let (Some(a), Some(b)) = (a[..row].last_chunk::<STRIDE>(), b[..column].last_chunk())
        && a == b
    {
        return None;
    }
    let back = common_suffix(&a[..row], &b[..column]);
    let size = back + common_prefix(&a[row..], &b[column..]);
    (size >= LONG).then_some(Block { a: row - back, b: column - back, size })
}

#[inline(always)]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks().0);
    for (place, (a, b)) in a_words.iter().zip(b_words).enumerate() {
        let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if difference != 0 {
            return 8 * place + difference.trailing_zeros() as usize / 8;
        }
    }
    let equal = 8 * a_words.len().min(b_words.len());
    equal + a[equal..].iter().zip(&b[equal..]).take_while(|(a, b)| a == b).count()
}

#[inline(always)]
fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let (a_words, b_words) = (a.as_rchunks::<8>().1, b.as_rchunks().1);
    for (place, (a, b)) in a_words.iter().rev().zip(b_words.iter().rev()).enumerate() {
        let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if difference != 0 {
            return 8 * place + difference.leading_zeros() as usize / 8;
        }
    }
    let equal = 8 * a_words.len().min(b_words.len());
    let (a, b) = (&a[..a.len() - equal], &b[..b.len() - equal]);
    equal + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::diagonals::Diagonals;
    use super::*;

    proptest! {
        #[test]
        fn finds_what_counting_finds(
            pieces in prop::collection::vec("[ab]{1,90}", 3),
            a in prop::collection::vec(0..3usize, 0..4),
            b in prop::collection::vec(0..3usize, 0..4),
            above in 0..3usize,
        ) {
            let text = |places: Vec<usize>| places.iter().map(|place| &*pieces[*place]).collect::<String>();
            let (a, b) = (text(a), text(b));
            let mut columns = Columns::default();
            columns.set(b.as_bytes());
            let longest = Diagonals::default().longest_run(a.as_bytes(), &columns, 255);
            prop_assume!(longest.size < 255);
            let found = longest_run(a.as_bytes(), &columns, longest.size + above);
            let expected = (longest.size >= LONG).then_some(longest);
            prop_assert_eq!(found.map(|run| (run.size, run.a, run.b)), expected.map(|run| (run.size, run.a, run.b)));
        }
    }

    #[test]
    fn common_ends_are_measured() {
        for size in 0..40 {
            let (a, b) = ("x".repeat(size), "x".repeat(size + 3));
            assert_eq!(common_prefix(format!("{a}yz").as_bytes(), b.as_bytes()), size);
            assert_eq!(common_suffix(b.as_bytes(), format!("zy{a}").as_bytes()), size);
            assert_eq!(common_suffix(a.as_bytes(), b.as_bytes()), size);
        }
    }
}
