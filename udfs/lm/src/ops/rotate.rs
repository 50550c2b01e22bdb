//! Rotary positions applied to queries and keys.

use candle_core::Tensor;

use super::super::Result;
use super::super::rope::RopeTable;
use super::{for_rows, matrix, read};
use asap_kernels::vectorized::vectorized;

/// Which way to rotate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// As in the forward pass.
    Forward,
    /// The transpose, which takes gradients back.
    Backward,
}

/// Rotates each pair of dimensions of each head by its position's angle. `positions` has one entry per row of `x`,
/// [tokens, heads × head_dim].
pub fn rotate(x: &Tensor, positions: &[usize], table: &RopeTable, direction: Direction) -> Result<Tensor> {
    let width = x.dim(1)?;
    let values = read([x], |[x]| {
        let mut values = x.to_vec();
        for_rows(&mut values, width, |first, rows| {
            rotate_rows(rows, width, &positions[first..], table, direction);
        });
        values
    })?;
    matrix(values, width)
}

/// [`rotate`] of some rows of this width in their place; `positions` begins with theirs.
pub fn rotate_rows(rows: &mut [f32], width: usize, positions: &[usize], table: &RopeTable, direction: Direction) {
    let pairs = table.pairs;
    let sign = if direction == Direction::Forward { 1.0 } else { -1.0 };
    vectorized(
        #[inline(always)]
        || {
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
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RopeConfig, RopeScaling};
    use crate::rope::Rope;

    #[test]
    fn rotating_back_gives_what_was_there() {
        let values: Vec<f32> = (0..5 * 8).map(|i| (i as f32).sin()).collect();
        let x = matrix(values.clone(), 8).unwrap();
        let table = Rope::new(&RopeConfig { theta: 100.0, scaling: RopeScaling::Default }, 4).table(5);
        let positions = [0, 1, 2, 0, 4];
        let there = rotate(&x, &positions, &table, Direction::Forward).unwrap();
        let rows = there.to_vec2::<f32>().unwrap();
        assert_eq!(rows[3], values[24..32], "position 0 is not rotated");
        assert!((rows[1][4] - (values[12] * 1_f32.cos() - values[14] * 1_f32.sin())).abs() < 1e-6);
        let back = rotate(&there, &positions, &table, Direction::Backward).unwrap().flatten_all().unwrap();
        for (found, expected) in back.to_vec1::<f32>().unwrap().iter().zip(&values) {
            assert!((found - expected).abs() < 1e-6);
        }
    }
}
