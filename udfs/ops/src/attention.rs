//! Attention in blocks of queries and keys: memory never holds tokens × tokens.

use super::exp::{exp, exp_in_place, max_of_row};
use super::{Arithmetic, Cores, Matrix, Pool, Result, Update, multiply, on_all_cores};
#[cfg(target_arch = "x86_64")]
use packed::Packed;
use pulp::{Arch, Simd, WithSimd};

#[cfg(target_arch = "x86_64")]
mod packed;

/// Queries per product: enough rows for a matrix product, few enough to split a short chain between cores.
pub(super) const QUERIES: usize = 256;
/// Keys per step of a task: its scores, 256 × 512 values, stay in a core's cache.
pub(super) const KEYS: usize = 512;
/// Keys per step in bf16, a packed part: if heads are 64 wide, its keys take 32 KiB, as do its values, and stay in the L1
/// cache for all rows.
const PACKED_KEYS: usize = 256;
/// A chain with fewer queries is f32 in both: packing its keys and values would take longer than multiplying.
const WORTH_PACKING: usize = 16;

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
/// earlier ones first. Sums and the softmax are f32. Unless the arithmetic is that of f32, queries, keys, values and
/// weights are rounded to bf16, except in chains of few tokens.
pub fn attend(
    [q, k, v]: [&[f32]; 3],
    heads: Heads,
    (chains, sees): (&[Sequence], Sees),
    (cores, arithmetic): (Cores, Arithmetic),
    pool: &Pool<Softmax>,
    results: [&mut [f32]; 2],
) -> Result<()> {
    let mut blocks = blocks(results, heads, chains, sees);
    // Longest first, so that no core waits at the end.
    blocks.sort_by_key(|block| std::cmp::Reverse(block.end));
    let attend = |kv: KeysValues| {
        let attend = |mut block| {
            pool.with(|softmax| (0..heads.key).for_each(|head| softmax.attend(q, kv, heads, head, &mut block)));
            Ok(())
        };
        match cores {
            Cores::One => blocks.into_iter().try_for_each(attend),
            Cores::All => on_all_cores(blocks, attend).map(drop),
        }
    };
    match arithmetic {
        Arithmetic::Widened => attend(KeysValues::new(k, v)),
        #[cfg(target_arch = "x86_64")]
        Arithmetic::MatrixUnit | Arithmetic::Dots => pool.with(|Softmax { pairs, .. }| {
            let packed = Packed::new([k, v], (heads, arithmetic), chains, cores, &mut pairs.lines)?;
            attend(KeysValues { packed: Some(packed), ..KeysValues::new(k, v) })
        }),
    }
}

#[derive(Clone, Copy)]
struct KeysValues<'a> {
    k: &'a [f32],
    v: &'a [f32],
    #[cfg(target_arch = "x86_64")]
    packed: Option<Packed<'a>>,
}

impl<'a> KeysValues<'a> {
    fn new(k: &'a [f32], v: &'a [f32]) -> Self {
        Self {
            k,
            v,
            #[cfg(target_arch = "x86_64")]
            packed: None,
        }
    }
}

struct Block<'a> {
    chain: usize,
    /// The first packed part of its chain, if the chain is worth packing.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "read by instructions of x86 only"))]
    part: Option<usize>,
    query: usize,
    /// The position from which on its first row hides keys, and the keys that its last row sees.
    from: usize,
    end: usize,
    rows: usize,
    output: &'a mut [f32],
    log_sums: &'a mut [f32],
}

impl Block<'_> {
    /// How many of `count` keys from key `first` on a token of the block sees.
    fn seen(&self, token: usize, first: usize, count: usize) -> usize {
        (self.from + 1 + token).saturating_sub(first).min(count)
    }
}

fn blocks<'a>(results: [&'a mut [f32]; 2], heads: Heads, chains: &[Sequence], sees: Sees) -> Vec<Block<'a>> {
    let [mut output, mut log_sums] = results;
    let rows_at_most = (QUERIES / (heads.query / heads.key)).max(1);
    let mut blocks = Vec::new();
    let (mut chain, mut query) = (0, 0);
    let mut part = 0;
    for sequence @ Sequence { earlier, tokens } in chains {
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
            let part = (parts(*sequence) > 0).then_some(part);
            blocks.push(Block { chain, part, query, from, end, rows, output, log_sums });
            query += rows;
        }
        chain += earlier + tokens;
        part += parts(*sequence);
    }
    blocks
}

/// The number of packed parts of a chain; none if it is not worth packing.
fn parts(chain: Sequence) -> usize {
    if chain.tokens < WORTH_PACKING { 0 } else { (chain.earlier + chain.tokens).div_ceil(PACKED_KEYS) }
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
    #[cfg(target_arch = "x86_64")]
    pairs: packed::Pairs,
}

impl Softmax {
    fn attend(&mut self, q: &[f32], kv: KeysValues, heads: Heads, key_head: usize, block: &mut Block) {
        let Heads { query, key, width } = heads;
        let shared = query / key;
        let rows = block.rows * shared;
        self.width = width;
        self.queries.clear();
        for token in block.query..block.query + block.rows {
            self.queries.extend_from_slice(&q[(token * query + key_head * shared) * width..][..shared * width]);
        }
        reset(&mut self.max, rows, f32::NEG_INFINITY);
        reset(&mut self.sum, rows, 0.0);
        reset(&mut self.gathered, rows * width, 0.0);
        self.gather(kv, heads, key_head, block);
        for row in 0..rows {
            let place = row / shared * query + key_head * shared + row % shared;
            block.log_sums[place] = self.finish(row, &mut block.output[place * width..][..width]);
        }
    }

    fn gather(&mut self, kv: KeysValues, heads: Heads, key_head: usize, block: &Block) {
        #[cfg(target_arch = "x86_64")]
        if let (Some(packed), Some(part)) = (kv.packed, block.part) {
            return self.gather_packed(packed, (part, key_head), block);
        }
        let Heads { query, key, width } = heads;
        let rows = self.max.len();
        for first in (0..block.end).step_by(KEYS) {
            let count = KEYS.min(block.end - first);
            self.scores.resize(rows * count, 0.0);
            let part = |x| head_of(x, block.chain + first, count, (key_head, key, width));
            let (queries, keys) = (Matrix::dense(&self.queries, rows, width), part(kv.k).t());
            multiply(queries, keys, (width as f32).sqrt().recip(), &mut self.scores, Update::Replace, Cores::One);
            self.weigh(count, |row| block.seen(row / (query / key), first, count), |_, _| ());
            let weights = Matrix::dense(&self.scores, rows, count);
            multiply(weights, part(kv.v), 1.0, &mut self.gathered, Update::Add, Cores::One);
        }
    }

    /// Turns scores into weights. Rows are `line` scores apart, of which the first `seen` are visible. Calls `weighed` with
    /// each row and its weights.
    fn weigh(&mut self, line: usize, seen: impl Fn(usize) -> usize, weighed: impl FnMut(usize, &[f32])) {
        Arch::new().dispatch(Weigh { softmax: self, line, seen, weighed });
    }

    fn finish(&self, row: usize, output: &mut [f32]) -> f32 {
        let gathered = &self.gathered[row * self.width..][..self.width];
        output.iter_mut().zip(gathered).for_each(|(to, x)| *to = x / self.sum[row]);
        self.max[row] + self.sum[row].ln()
    }
}

/// The work of [`Softmax::weigh`], for the vector instructions of this CPU.
struct Weigh<'a, F, G> {
    softmax: &'a mut Softmax,
    line: usize,
    seen: F,
    weighed: G,
}

impl<F: Fn(usize) -> usize, G: FnMut(usize, &[f32])> WithSimd for Weigh<'_, F, G> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { softmax: Softmax { width, scores, max, sum, gathered, .. }, line, seen, mut weighed } = self;
        let rows = scores.chunks_exact_mut(line).zip(gathered.chunks_exact_mut(*width)).zip(max.iter_mut().zip(sum));
        for (row, ((scores, gathered), (max, sum))) in rows.enumerate() {
            let (visible, hidden) = scores.split_at_mut(seen(row));
            hidden.fill(0.0);
            let highest = max_of_row(simd, visible);
            if highest > *max {
                // At the first block of keys nothing is accumulated, and exp returns a tiny number for −∞.
                let shrink = exp(*max - highest);
                gathered.iter_mut().for_each(|x| *x *= shrink);
                *sum *= shrink;
                *max = highest;
            }
            *sum += exp_in_place(simd, visible, *max);
            weighed(row, scores);
        }
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
            width in prop_oneof![Just(6), Just(16), Just(64), Just(80)],
            seed in any::<u64>(), all in any::<bool>(),
        ) {
            let sees = if all { Sees::All } else { Sees::Earlier };
            let heads = Heads { query: 4, key: 2, width };
            let (query_width, key_width) = (heads.query_width(), heads.key_width());
            let tokens: usize = lengths.iter().sum();
            let mut state = seed;
            // Numbers of few bits, which bf16 holds.
            let mut draw = |count: usize| -> Vec<f32> {
                (0..count).map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 59) as f32 / 8.0 - 2.0
                }).collect()
            };
            let (q, k, v) = (draw(tokens * query_width), draw(tokens * key_width), draw(tokens * key_width));
            let chains: Vec<Sequence> = lengths.iter().map(|tokens| Sequence { earlier: 0, tokens: *tokens }).collect();
            let (output, log_sums) = plain([&q, &k, &v], heads, &lengths, sees);
            for arithmetic in Arithmetic::here() {
                // Weights in bf16 have 8 bits. Queries have, too, unless their scale is a power of two.
                let (near, near_sums) = match arithmetic {
                    Arithmetic::Widened => (2e-5, 2e-5),
                    _ if width == 16 || width == 64 => (1e-2, 2e-5),
                    _ => (3e-2, 3e-2),
                };
                let (mut whole, mut whole_sums) = (vec![0.0; tokens * query_width], vec![0.0; tokens * 4]);
                let results = [&mut *whole, &mut *whole_sums];
                let how = (Cores::All, arithmetic);
                attend([&q, &k, &v], heads, (&chains, sees), how, &Pool::default(), results).unwrap();
                // The last chain's second half, after its first half, gives the same rows.
                let (last, before) = (lengths[lengths.len() - 1], tokens - lengths[lengths.len() - 1]);
                let chain = Sequence { earlier: last / 2, tokens: last - last / 2 };
                let half = before + last / 2;
                let (mut continued, mut sums) = (vec![0.0; chain.tokens * query_width], vec![0.0; chain.tokens * 4]);
                let qkv = [&q[half * query_width..], &k[before * key_width..], &v[before * key_width..]];
                let results = [&mut *continued, &mut *sums];
                let how = (Cores::One, arithmetic);
                attend(qkv, heads, (&[chain], sees), how, &Pool::default(), results).unwrap();
                for (found, expected) in continued.iter().zip(&whole[half * query_width..]) {
                    prop_assert!((found - expected).abs() < near as f32);
                }
                for (found, expected, near) in [(whole, &output, near), (whole_sums, &log_sums, near_sums)] {
                    prop_assert_eq!(found.len(), expected.len());
                    for (found, expected) in found.iter().zip(expected) {
                        let difference = (f64::from(*found) - expected).abs();
                        prop_assert!(difference < near, "{:?}: {} against {}", arithmetic, found, expected);
                    }
                }
            }
        }
    }
}
