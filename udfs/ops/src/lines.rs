//! Memory layout of bf16 weights. Instructions for bf16 multiply pairs of numbers and add both products to one sum.
//! A line therefore holds the same pair of inputs of 16 outputs: one vector, or one row of a tile of AMX.

pub(super) const PANEL: usize = 64;
/// A weight is padded with zeros to a multiple of this many pairs, which AMX takes per instruction.
pub(super) const PAIRS_AT_ONCE: usize = 16;

/// A cache line of bf16 pairs; the low half is the first of a pair. Vectors then never cross a cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u32; 16]);
