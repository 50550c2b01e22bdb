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
    use proptest::prelude::*;

    /// The output for a token at the head whose values are at `at(token, i)`.
    fn plain(qkv: [&[f32]; 3], at: impl Fn(usize, usize) -> usize, [tokens, token, width]: [usize; 3]) -> Vec<f64> {
        let value = |x: &[f32], token, i| f64::from(x[at(token, i)]);
        let score = |other| {
            (0..width).map(|i| value(qkv[0], token, i) * value(qkv[1], other, i)).sum::<f64>() / (width as f64).sqrt()
        };
        let weights: Vec<f64> = (0..tokens).map(|other| score(other).exp()).collect();
        let sum: f64 = weights.iter().sum();
        (0..width).map(|i| (0..tokens).map(|other| weights[other] / sum * value(qkv[2], other, i)).sum()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn blocks_agree_with_the_definition(tokens in prop_oneof![1_usize..40, 120_usize..140], pace in 0.1_f32..9.0) {
            let (heads, width) = (3, 5);
            let draw = |shift: f32| (0..tokens * 15).map(|i| 2.0 * (i as f32 * pace + shift).sin()).collect::<Vec<_>>();
            let [q, k, v] = [0.0, 1.0, 2.0].map(draw);
            let mut output = vec![0.0; tokens * 15];
            attend_all([&q, &k, &v], heads, width, &mut Scores::default(), &mut output, Cores::One);
            for (token, head) in (0..tokens).flat_map(|token| (0..heads).map(move |head| (token, head))) {
                let at = |token: usize, i: usize| (token * heads + head) * width + i;
                let expected = plain([&q, &k, &v], at, [tokens, token, width]);
                for (i, expected) in expected.into_iter().enumerate() {
                    prop_assert!((f64::from(output[at(token, i)]) - expected).abs() < 1e-5);
                }
            }
        }
    }
}
