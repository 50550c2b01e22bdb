//! The gradient of causal attention, in blocks of queries and keys: memory never holds tokens × tokens.
//!
//! Probabilities are computed again, from the logarithms of the softmax sums that the forward pass returns.

use candle_core::Tensor;
use rayon::prelude::*;

use super::gradients::{add, dot};
use crate::Result;
use crate::config::Heads;
use crate::ops::{Attention, Cores, Matrix, Update, exp, matrix, multiply, read};
use asap_kernels::vectorized::vectorized;

/// Queries of one block.
const QUERIES: usize = 128;
/// Keys of one block: its probabilities stay in a core's cache.
const KEYS: usize = 512;
// A block's first query then sees at least one key of every block that it meets.
const _: () = assert!(KEYS.is_multiple_of(QUERIES));

/// The gradients of attention by its inputs.
#[derive(Debug)]
pub struct AttentionGradient {
    /// By the queries, [tokens, query heads × width].
    pub q: Tensor,
    /// By the keys, [tokens, key heads × width].
    pub k: Tensor,
    /// By the values, [tokens, key heads × width].
    pub v: Tensor,
}

/// The gradients of `ops::attention(q, k, v, heads, lengths)` from its result and the gradient of its output.
pub fn attention(
    gradient: &Tensor,
    [q, k, v]: [&Tensor; 3],
    forward: &Attention,
    heads: Heads,
    lengths: &[usize],
) -> Result<AttentionGradient> {
    let mut parts = Vec::new();
    let mut first = 0;
    for length in lengths {
        parts.extend((0..heads.query).map(|head| HeadOfChain { first, length: *length, head, heads }));
        first += length;
    }
    let tokens = first;
    let mut by_q = vec![0.0; tokens * heads.query * heads.width];
    let mut by_k = vec![0.0; tokens * heads.key * heads.width];
    let mut by_v = vec![0.0; tokens * heads.key * heads.width];
    read([q, k, v, &forward.output, &forward.log_sums, gradient], |[q, k, v, output, log_sums, gradient]| {
        let inputs = Inputs { q, k, v, output, log_sums, gradient };
        let gradients: Vec<_> = parts.par_iter().map(|part| part.backward(&inputs)).collect();
        // In order: the query heads that share a key head add up the same on any number of cores.
        for (part, (from_q, from_k, from_v)) in parts.iter().zip(gradients) {
            part.gather(&from_q, &mut by_q, part.head, heads.query);
            part.gather(&from_k, &mut by_k, part.key_head(), heads.key);
            part.gather(&from_v, &mut by_v, part.key_head(), heads.key);
        }
    })?;
    let width = heads.key * heads.width;
    Ok(AttentionGradient {
        q: matrix(by_q, heads.query * heads.width)?,
        k: matrix(by_k, width)?,
        v: matrix(by_v, width)?,
    })
}

/// What attention was computed from, what it gave, and the gradient by that.
struct Inputs<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    output: &'a [f32],
    log_sums: &'a [f32],
    gradient: &'a [f32],
}

/// One chain and query head.
struct HeadOfChain {
    /// The chain's first token.
    first: usize,
    /// The chain's tokens.
    length: usize,
    head: usize,
    heads: Heads,
}

impl HeadOfChain {
    fn key_head(&self) -> usize {
        self.head / (self.heads.query / self.heads.key)
    }

    /// The gradients by the head's queries, by its keys and by its values, [tokens, width] each.
    fn backward(&self, inputs: &Inputs) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let width = self.heads.width;
        let scale = (width as f32).sqrt().recip();
        let (log_sums, means) = self.rows(inputs);
        let zeros = || vec![0.0; self.length * width];
        let (mut by_q, mut by_k, mut by_v) = (zeros(), zeros(), zeros());
        let (mut probabilities, mut by_scores) = (Vec::new(), Vec::new());
        for from in (0..self.length).step_by(QUERIES) {
            let rows = from..self.length.min(from + QUERIES);
            let q = self.matrix(inputs.q, self.head, self.heads.query, rows.start, rows.len());
            let gradient = self.matrix(inputs.gradient, self.head, self.heads.query, rows.start, rows.len());
            for first in (0..rows.end).step_by(KEYS) {
                let count = KEYS.min(rows.end - first);
                let k = self.matrix(inputs.k, self.key_head(), self.heads.key, first, count);
                let v = self.matrix(inputs.v, self.key_head(), self.heads.key, first, count);
                probabilities.resize(rows.len() * count, 0.0);
                by_scores.resize(rows.len() * count, 0.0);
                multiply(q, k.t(), scale, &mut probabilities, Update::Replace, Cores::One);
                multiply(gradient, v.t(), 1.0, &mut by_scores, Update::Replace, Cores::One);
                let seen = from + 1 - first;
                vectorized(
                    #[inline(always)]
                    || {
                        let (log_sums, means) = (&log_sums[rows.clone()], &means[rows.clone()]);
                        softmax_backward(&mut probabilities, &mut by_scores, count, seen, log_sums, means);
                    },
                );
                let keys = first * width..(first + count) * width;
                let probabilities = Matrix::dense(&probabilities, rows.len(), count);
                let by_scores = Matrix::dense(&by_scores, rows.len(), count);
                multiply(probabilities.t(), gradient, 1.0, &mut by_v[keys.clone()], Update::Add, Cores::One);
                multiply(by_scores.t(), q, scale, &mut by_k[keys], Update::Add, Cores::One);
                let queries = rows.start * width..rows.end * width;
                multiply(by_scores, k, scale, &mut by_q[queries], Update::Add, Cores::One);
            }
        }
        (by_q, by_k, by_v)
    }

    /// For each query the logarithm of its softmax sum, and the mean of the gradients by its probabilities, weighted by
    /// them, which is output · gradient.
    fn rows(&self, inputs: &Inputs) -> (Vec<f32>, Vec<f32>) {
        let Heads { query, width, .. } = self.heads;
        let tokens = self.first..self.first + self.length;
        let log_sums = tokens.clone().map(|token| inputs.log_sums[token * query + self.head]);
        let means = tokens.map(|token| {
            let row = (token * query + self.head) * width;
            dot(&inputs.output[row..row + width], &inputs.gradient[row..row + width])
        });
        (log_sums.collect(), means.collect())
    }

    /// Tokens of the chain at one of `heads` heads, [count, width].
    fn matrix<'a>(&self, x: &'a [f32], head: usize, heads: usize, first: usize, count: usize) -> Matrix<'a> {
        let width = self.heads.width;
        let start = ((self.first + first) * heads + head) * width;
        Matrix::new(&x[start..], (count, width), (heads * width, 1))
    }

    /// Adds a head's gradient, [tokens, width], to that of all heads, [all tokens, heads × width].
    fn gather(&self, from: &[f32], to: &mut [f32], head: usize, heads: usize) {
        let width = self.heads.width;
        let rows = to[self.first * heads * width..].chunks_exact_mut(heads * width);
        for (row, from) in rows.zip(from.chunks_exact(width)) {
            add(&mut row[head * width..(head + 1) * width], from);
        }
    }
}

/// Turns scores into probabilities and the gradient by probabilities into the gradient by scores. Rows have `count` keys;
/// the first row sees `seen` of them, each next row one more.
#[inline(always)]
fn softmax_backward(
    scores: &mut [f32],
    gradient: &mut [f32],
    count: usize,
    seen: usize,
    log_sums: &[f32],
    means: &[f32],
) {
    let rows = scores.chunks_exact_mut(count).zip(gradient.chunks_exact_mut(count));
    // Copies of the row's numbers: behind references they would be read again after every store.
    for (row, ((scores, gradient), (&log_sum, &mean))) in rows.zip(log_sums.iter().zip(means)).enumerate() {
        let (scores, hidden) = scores.split_at_mut((seen + row).min(count));
        let (gradient, by_hidden) = gradient.split_at_mut(scores.len());
        hidden.fill(0.0);
        by_hidden.fill(0.0);
        for (score, gradient) in scores.iter_mut().zip(gradient) {
            *score = exp(*score - log_sum);
            *gradient = *score * (*gradient - mean);
        }
    }
}
