//! RoPE on queries and keys.

use asap_kernels::vectorized;

/// Cosines and sines of the positions 0 … n − 1, head_dim / 2 each per position.
#[derive(Debug, Clone)]
pub struct RopeTable {
    /// Cosines, times the attention factor.
    pub cos: Vec<f32>,
    /// Sines, times the attention factor.
    pub sin: Vec<f32>,
    /// Pairs of dimensions per head: head_dim / 2.
    pub pairs: usize,
}

impl RopeTable {
    pub fn positions(&self) -> usize {
        self.cos.len() / self.pairs
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    /// The transpose, for gradients.
    Backward,
}

/// Rotates each pair of dimensions of each head by the angle of the row's position. Each row has `width` values.
/// `positions` starts with the positions of the rows, in order, and may be longer.
pub fn rotate_rows(rows: &mut [f32], width: usize, positions: &[usize], table: &RopeTable, direction: Direction) {
    let pairs = table.pairs;
    let sign = if direction == Direction::Forward { 1.0 } else { -1.0 };
    vectorized!({
        for (row, position) in rows.chunks_exact_mut(width).zip(positions) {
            let angles = position * pairs..(position + 1) * pairs;
            let (cos, sin) = (&table.cos[angles.clone()], &table.sin[angles]);
            for head in row.chunks_exact_mut(2 * pairs) {
                let (first, second) = head.split_at_mut(pairs);
                for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                    let sin = sign * sin;
                    (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                }
            }
        }
    });
}
