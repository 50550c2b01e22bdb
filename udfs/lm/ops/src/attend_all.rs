//! Bidirectional attention, for encoders: every token of a text attends to every other.

use super::attention::head_of;
use super::exp::{exp_in_place, max};
use super::{Cores, Matrix, Update, multiply};
use asap_kernels::vectorized;

/// Queries per product: their scores, 128 × 512 values, fit the L2 cache.
const QUERIES: usize = 128;

#[derive(Debug, Default)]
pub struct Scores {
    weights: Vec<f32>,
    gathered: Vec<f32>,
}

/// Computes softmax(Q · Kᵀ / √width) · V of one text for each head. All slices are [tokens, heads × width].
pub fn attend_all(qkv: [&[f32]; 3], heads: usize, width: usize, room: &mut Scores, output: &mut [f32], cores: Cores) {
    let all = heads * width;
    let tokens = output.len() / all;
    let Scores { weights, gathered } = room;
    for head in 0..heads {
        let of_head = |x, first, rows| head_of(x, first, rows, (head, heads, width));
        let [keys, values] = [qkv[1], qkv[2]].map(|x| of_head(x, 0, tokens));
        for first in (0..tokens).step_by(QUERIES) {
            let rows = QUERIES.min(tokens - first);
            weights.resize(rows * tokens, 0.0);
            gathered.resize(rows * width, 0.0);
            let scale = (width as f32).sqrt().recip();
            multiply(of_head(qkv[0], first, rows), keys.t(), scale, weights, Update::Replace, cores);
            softmax_rows(weights, tokens);
            multiply(Matrix::dense(weights, rows, tokens), values, 1.0, gathered, Update::Replace, cores);
            let output = output[first * all..].chunks_exact_mut(all);
            output.zip(gathered.chunks_exact(width)).for_each(|(to, x)| to[head * width..][..width].copy_from_slice(x));
        }
    }
}

fn softmax_rows(rows: &mut [f32], width: usize) {
    vectorized!({
        for row in rows.chunks_exact_mut(width) {
            let highest = max(row);
            let scale = exp_in_place(row, highest).recip();
            row.iter_mut().for_each(|x| *x *= scale);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heads;
    use crate::attention::tests::plain;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn blocks_agree_with_the_definition(tokens in prop_oneof![1_usize..40, 120_usize..140], pace in 0.1_f32..9.0) {
            let heads = Heads { query: 3, key: 3, width: 5 };
            let draw = |shift: f32| (0..tokens * 15).map(|i| 2.0 * (i as f32 * pace + shift).sin()).collect::<Vec<_>>();
            let [q, k, v] = [0.0, 1.0, 2.0].map(draw);
            let mut output = vec![0.0; tokens * 15];
            attend_all([&q, &k, &v], heads.key, heads.width, &mut Scores::default(), &mut output, Cores::One);
            let (expected, _) = plain([&q, &k, &v], heads, &[tokens], |_| tokens);
            for (found, expected) in output.iter().zip(expected) {
                prop_assert!((f64::from(*found) - expected).abs() < 1e-5);
            }
        }
    }
}
