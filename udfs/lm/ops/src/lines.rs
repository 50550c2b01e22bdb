//! How weights in bf16 lie in memory, as the instructions take them.

pub(super) const PANEL: usize = 64;
/// A weight has a multiple of so many pairs, the last ones of zeros: the matrix unit takes as many at once.
pub(super) const PAIRS_AT_ONCE: usize = 16;

/// A cache line of pairs of bf16 numbers; the first of a pair is its low half. Vectors then never cross a line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u32; 16]);
