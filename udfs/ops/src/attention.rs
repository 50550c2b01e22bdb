//! Attention in blocks of queries and keys: memory never holds tokens × tokens.

use super::exp::{exp, exp_in_place, max};
use super::{Cores, Matrix, Pool, Result, Update, multiply, on_all_cores};
use asap_kernels::vectorized;

/// Queries per product: enough rows for a matrix product, few enough to split a short chain between cores.
pub(super) const QUERIES: usize = 256;
/// Keys per step of a task: its scores, 256 × 512 values, stay in a core's cache.
pub(super) const KEYS: usize = 512;

/// Head counts of a layer. Query head h reads key head h / (query / key).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    pub query: usize,
    pub key: usize,
    pub width: usize,
}

impl Heads {
    pub fn query_width(self) -> usize {
        self.query * self.width
    }

    pub fn key_width(self) -> usize {
        self.key * self.width
    }
}

/// Tokens of a chain with queries, after earlier tokens of which only keys and values are present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    pub earlier: usize,
    pub tokens: usize,
}

/// The tokens of its chain that a token attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// Itself and the earlier ones.
    Earlier,
    /// All of them, in encoders.
    All,
}

/// Computes softmax(Q · Kᵀ / √width) · V for concatenated chains, [tokens, query heads × width], and the log-sum-exp of
/// the scores, [tokens, query heads].
///
/// `q` is [tokens, query heads × width]. `k` and `v` are [tokens, key heads × width] with all tokens of a chain,
/// earlier ones first.
pub fn attend(
    qkv: [&[f32]; 3],
    heads: Heads,
    (chains, sees): (&[Sequence], Sees),
    cores: Cores,
    pool: &Pool<Softmax>,
    [output, log_sums]: [&mut [f32]; 2],
) -> Result<()> {
    let mut blocks = blocks([output, log_sums], heads, chains, sees);
    // Longest first, so that no core waits at the end.
    blocks.sort_by_key(|block| std::cmp::Reverse(block.end));
    let attend = |mut block| {
        pool.with(|softmax| (0..heads.key).for_each(|key_head| softmax.attend(qkv, heads, key_head, &mut block)));
        Ok(())
    };
    match cores {
        Cores::One => blocks.into_iter().try_for_each(attend),
        Cores::All => on_all_cores(blocks, attend).map(drop),
    }
}

struct Block<'a> {
    chain: usize,
    query: usize,
    /// The position from which on its first row hides keys, and the keys that its last row sees.
    from: usize,
    end: usize,
    rows: usize,
    output: &'a mut [f32],
    log_sums: &'a mut [f32],
}

fn blocks<'a>(results: [&'a mut [f32]; 2], heads: Heads, chains: &[Sequence], sees: Sees) -> Vec<Block<'a>> {
    let [mut output, mut log_sums] = results;
    let rows_at_most = (QUERIES / (heads.query / heads.key)).max(1);
    let mut blocks = Vec::new();
    let (mut chain, mut query) = (0, 0);
    for Sequence { earlier, tokens } in chains {
        // Blocks of equal size instead of a small last one: a smaller block computes fewer masked keys.
        let rows_each = tokens.div_ceil(tokens.div_ceil(rows_at_most).max(1)).max(1);
        for from in (0..*tokens).step_by(rows_each) {
            let rows = rows_each.min(tokens - from);
            let output = output.split_off_mut(..rows * heads.query_width()).unwrap_or_default();
            let log_sums = log_sums.split_off_mut(..rows * heads.query).unwrap_or_default();
            let (from, end) = match sees {
                Sees::Earlier => (earlier + from, earlier + from + rows),
                Sees::All => (earlier + tokens, earlier + tokens),
            };
            blocks.push(Block { chain, query, from, end, rows, output, log_sums });
            query += rows;
        }
        chain += earlier + tokens;
    }
    blocks
}

/// Online softmax of one block, for the query heads of one key head. Rows are queries, head by head within token by
/// token. The accumulated output is scaled down whenever a larger score appears.
#[derive(Debug, Default)]
pub struct Softmax {
    width: usize,
    queries: Vec<f32>,
    scores: Vec<f32>,
    max: Vec<f32>,
    sum: Vec<f32>,
    gathered: Vec<f32>,
}

impl Softmax {
    fn attend(&mut self, [q, k, v]: [&[f32]; 3], heads: Heads, key_head: usize, block: &mut Block) {
        let Heads { query, key, width } = heads;
        let shared = query / key;
        let Block { from, end, .. } = *block;
        let rows = block.rows * shared;
        self.width = width;
        self.queries.clear();
        for token in block.query..block.query + block.rows {
            self.queries.extend_from_slice(&q[(token * query + key_head * shared) * width..][..shared * width]);
        }
        reset(&mut self.max, rows, f32::NEG_INFINITY);
        reset(&mut self.sum, rows, 0.0);
        reset(&mut self.gathered, rows * width, 0.0);
        for first in (0..end).step_by(KEYS) {
            let count = KEYS.min(end - first);
            self.scores.resize(rows * count, 0.0);
            let queries = Matrix::dense(&self.queries, rows, width);
            let keys = head_of(k, block.chain + first, count, (key_head, key, width));
            multiply(queries, keys.t(), (width as f32).sqrt().recip(), &mut self.scores, Update::Replace, Cores::One);
            let seen = |row: usize| (from + 1 + row / shared).saturating_sub(first).min(count);
            vectorized!({
                for row in 0..rows {
                    self.weigh(row, count, seen(row));
                }
            });
            let weights = Matrix::dense(&self.scores, rows, count);
            let values = head_of(v, block.chain + first, count, (key_head, key, width));
            multiply(weights, values, 1.0, &mut self.gathered, Update::Add, Cores::One);
        }
        for row in 0..rows {
            let place = row / shared * query + key_head * shared + row % shared;
            block.log_sums[place] = self.finish(row, &mut block.output[place * width..][..width]);
        }
    }

    /// Turns one row's scores, the first `seen` of which are visible, into weights.
    #[inline(always)]
    fn weigh(&mut self, row: usize, count: usize, seen: usize) {
        let (visible, hidden) = self.scores[row * count..][..count].split_at_mut(seen);
        hidden.fill(0.0);
        let before = self.max[row];
        let highest = max(visible);
        if highest > before {
            // At the first block of keys nothing is accumulated, and exp returns a tiny number for −∞.
            let shrink = exp(before - highest);
            self.gathered[row * self.width..][..self.width].iter_mut().for_each(|x| *x *= shrink);
            self.sum[row] *= shrink;
            self.max[row] = highest;
        }
        self.sum[row] += exp_in_place(visible, self.max[row]);
    }

    fn finish(&self, row: usize, output: &mut [f32]) -> f32 {
        let gathered = &self.gathered[row * self.width..][..self.width];
        output.iter_mut().zip(gathered).for_each(|(to, x)| *to = x / self.sum[row]);
        self.max[row] + self.sum[row].ln()
    }
}

/// The rows of one head, `count` of them from row `first` on; `x` has rows of all heads.
pub(super) fn head_of(
    x: &[f32],
    first: usize,
    count: usize,
    (head, heads, width): (usize, usize, usize),
) -> Matrix<'_> {
    Matrix::new(&x[(first * heads + head) * width..], (count, width), (heads * width, 1))
}

fn reset(values: &mut Vec<f32>, length: usize, value: f32) {
    values.clear();
    values.resize(length, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain([q, k, v]: [&[f32]; 3], heads: Heads, lengths: &[usize], sees: Sees) -> (Vec<f64>, Vec<f64>) {
        let Heads { query, key, width } = heads;
        let (mut output, mut log_sums) = (Vec::new(), Vec::new());
        let mut chain = 0;
        for length in lengths {
            for (token, head) in (0..*length).flat_map(|token| (0..query).map(move |head| (token, head))) {
                let at = |x: &[f32], token: usize, heads: usize, head: usize, i: usize| {
                    f64::from(x[((chain + token) * heads + head) * width + i])
                };
                let key_head = head / (query / key);
                let score = |other: usize| {
                    let terms = (0..width).map(|i| at(q, token, query, head, i) * at(k, other, key, key_head, i));
                    terms.sum::<f64>() / (width as f64).sqrt()
                };
                let seen = if sees == Sees::All { *length } else { token + 1 };
                let weights: Vec<f64> = (0..seen).map(|other| score(other).exp()).collect();
                let sum: f64 = weights.iter().sum();
                log_sums.push(sum.ln());
                output.extend((0..width).map(|i| {
                    (0..seen).map(|other| weights[other] / sum * at(v, other, key, key_head, i)).sum::<f64>()
                }));
            }
            chain += length;
        }
        (output, log_sums)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn blocks_and_packing_agree_with_the_definition(
            lengths in prop::collection::vec(prop_oneof![1_usize..40, 100_usize..160, Just(700)], 1..4),
            seed in any::<u64>(), all in any::<bool>(),
        ) {
            let sees = if all { Sees::All } else { Sees::Earlier };
            let heads = Heads { query: 4, key: 2, width: 6 };
            let tokens: usize = lengths.iter().sum();
            let mut state = seed;
            let mut draw = |count: usize| -> Vec<f32> {
                (0..count).map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 40) as f32 / 4e6 - 2.0
                }).collect()
            };
            let (q, k, v) = (draw(tokens * 24), draw(tokens * 12), draw(tokens * 12));
            let chains: Vec<Sequence> = lengths.iter().map(|tokens| Sequence { earlier: 0, tokens: *tokens }).collect();
            let (mut whole, mut whole_sums) = (vec![0.0; tokens * 24], vec![0.0; tokens * 4]);
            let results = [&mut *whole, &mut *whole_sums];
            attend([&q, &k, &v], heads, (&chains, sees), Cores::All, &Pool::default(), results).unwrap();
            // The last chain's second half, after its first half, gives the same rows.
            let (last, before) = (lengths[lengths.len() - 1], tokens - lengths[lengths.len() - 1]);
            let chain = Sequence { earlier: last / 2, tokens: last - last / 2 };
            let half = before + last / 2;
            let (mut continued, mut sums) = (vec![0.0; chain.tokens * 24], vec![0.0; chain.tokens * 4]);
            let qkv = [&q[half * 24..], &k[before * 12..], &v[before * 12..]];
            let results = [&mut *continued, &mut *sums];
            attend(qkv, heads, (&[chain], sees), Cores::One, &Pool::default(), results).unwrap();
            for (found, expected) in continued.iter().zip(&whole[half * 24..]) {
                prop_assert!((found - expected).abs() < 1e-5);
            }
            let (output, log_sums) = plain([&q, &k, &v], heads, &lengths, sees);
            for (found, expected) in [(whole, output), (whole_sums, log_sums)] {
                prop_assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    prop_assert!((f64::from(*found) - expected).abs() < 2e-5, "{} against {}", found, expected);
                }
            }
        }
    }
}
