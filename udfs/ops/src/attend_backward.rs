//! The backward pass of causal attention, in blocks of queries and keys: memory never holds tokens × tokens.
//!
//! Probabilities are recomputed from the log-sum-exp that the forward pass saves. Blocks of queries are processed in
//! sequence. For each, the cores share the visible blocks of keys; a block of keys owns the gradients of its keys and
//! values. Contributions to the queries are added in block order, so results do not depend on the number of cores.

use std::ops::Range;

use rayon::prelude::*;

use super::attention::{KEYS, QUERIES, head_of};
use super::gradients::add;
use super::sums::dot;
use super::{Cores, Heads, Matrix, Pool, Sequence, Update, exp, multiply};
use asap_kernels::vectorized;

/// Replaces q, [tokens, query heads × width], and k and v, [tokens, key heads × width], by their gradients for
/// `attend([q, k, v], heads, chains, …)`. Given are its output, the gradient of that, both [tokens, query heads × width],
/// and the log-sum-exp of the scores, [tokens, query heads]. The chains are whole.
pub fn attend_backward(
    [q, k, v]: [&mut [f32]; 3],
    given: [&[f32]; 3],
    heads: Heads,
    chains: &[Sequence],
    scratch: &Pool<BackwardScratch>,
) {
    let shared = heads.query / heads.key;
    let steps = |tokens: usize| tokens.div_ceil((QUERIES / shared).max(1));
    // Steps of equal size instead of a small last one: a smaller step computes fewer masked keys.
    let queries = |block: &KeyBlock, step: usize| {
        let size = block.length.div_ceil(steps(block.length));
        step * size..block.length.min((step + 1) * size)
    };
    let mut blocks = blocks(heads, chains);
    for step in 0..chains.iter().map(|chain| steps(chain.tokens)).max().unwrap_or(0) {
        let sees = |block: &&mut KeyBlock| {
            let queries = queries(block, step);
            !queries.is_empty() && block.first < queries.end
        };
        blocks.par_iter_mut().with_max_len(1).filter(sees).for_each(|block| {
            let queries = queries(block, step);
            scratch.with(|scratch| block.step(queries, [q, k, v], given, heads, scratch));
        });
        for block in blocks.iter_mut().filter(sees) {
            let queries = queries(block, step);
            for (token, by_q) in queries.zip(block.by_q.chunks_exact(shared * heads.width)) {
                let place = ((block.chain + token) * heads.query + block.head * shared) * heads.width;
                let to = &mut q[place..place + by_q.len()];
                if block.first == 0 { to.copy_from_slice(by_q) } else { add(to, by_q) }
            }
        }
    }
    for block in &blocks {
        let rows = block.by_k.chunks_exact(heads.width).zip(block.by_v.chunks_exact(heads.width));
        for (token, (by_k, by_v)) in (block.chain + block.first..).zip(rows) {
            let place = (token * heads.key + block.head) * heads.width;
            k[place..place + heads.width].copy_from_slice(by_k);
            v[place..place + heads.width].copy_from_slice(by_v);
        }
    }
}

#[derive(Debug, Default)]
pub struct BackwardScratch {
    /// Rows × width. A row is a token's query at one of the heads that share the keys.
    queries: Vec<f32>,
    gradient: Vec<f32>,
    probabilities: Vec<f32>,
    by_scores: Vec<f32>,
}

#[derive(Debug)]
struct KeyBlock {
    chain: usize,
    length: usize,
    head: usize,
    first: usize,
    by_k: Vec<f32>,
    by_v: Vec<f32>,
    by_q: Vec<f32>,
}

fn blocks(heads: Heads, chains: &[Sequence]) -> Vec<KeyBlock> {
    let mut blocks = Vec::new();
    let mut chain = 0;
    for length in chains.iter().map(|chain| chain.tokens) {
        for head in 0..heads.key {
            blocks.extend((0..length).step_by(KEYS).map(|first| {
                let zeros = || vec![0.0; KEYS.min(length - first) * heads.width];
                KeyBlock { chain, length, head, first, by_k: zeros(), by_v: zeros(), by_q: Vec::new() }
            }));
        }
        chain += length;
    }
    blocks
}

impl KeyBlock {
    /// Adds the queries' contributions to the gradients of its keys and values, and computes its part of theirs.
    fn step(
        &mut self,
        tokens: Range<usize>,
        [q, k, v]: [&[f32]; 3],
        [output, by_output, log_sums]: [&[f32]; 3],
        heads: Heads,
        BackwardScratch { queries, gradient, probabilities, by_scores }: &mut BackwardScratch,
    ) {
        let Heads { query, key, width } = heads;
        let (shared, scale) = (query / key, (width as f32).sqrt().recip());
        let rows = tokens.len() * shared;
        let count = (self.by_k.len() / width).min(tokens.end - self.first);
        queries.clear();
        gradient.clear();
        for token in self.chain + tokens.start..self.chain + tokens.end {
            let own = (token * query + self.head * shared) * width..(token * query + (self.head + 1) * shared) * width;
            queries.extend_from_slice(&q[own.clone()]);
            gradient.extend_from_slice(&by_output[own]);
        }
        let [keys, values] = [k, v].map(|x| head_of(x, self.chain + self.first, count, (self.head, key, width)));
        let (queries, gradients) = (Matrix::dense(queries, rows, width), Matrix::dense(gradient, rows, width));
        probabilities.resize(rows * count, 0.0);
        by_scores.resize(rows * count, 0.0);
        multiply(queries, keys.t(), scale, probabilities, Update::Replace, Cores::One);
        multiply(gradients, values.t(), 1.0, by_scores, Update::Replace, Cores::One);
        vectorized!({
            for row in 0..rows {
                let (token, head) = (tokens.start + row / shared, self.head * shared + row % shared);
                let seen = (token + 1).saturating_sub(self.first).min(count);
                let place = (self.chain + token) * query + head;
                let gathered = &output[place * width..(place + 1) * width];
                let mean = dot(gathered, &gradient[row * width..(row + 1) * width]);
                let part = row * count..(row + 1) * count;
                let parts = (&mut probabilities[part.clone()], &mut by_scores[part]);
                softmax_backward(parts, seen, log_sums[place], mean);
            }
        });
        let probabilities = Matrix::dense(probabilities, rows, count);
        let by_scores = Matrix::dense(by_scores, rows, count);
        self.by_q.resize(rows * width, 0.0);
        multiply(probabilities.t(), gradients, 1.0, &mut self.by_v[..count * width], Update::Add, Cores::One);
        multiply(by_scores.t(), queries, scale, &mut self.by_k[..count * width], Update::Add, Cores::One);
        multiply(by_scores, keys, scale, &mut self.by_q, Update::Replace, Cores::One);
    }
}

/// Turns a row's scores, the first `seen` of which are visible, into probabilities, and the gradient of probabilities
/// into that of scores. `mean` is the probability-weighted mean of that gradient: gathered · its gradient.
#[inline(always)]
fn softmax_backward((scores, gradient): (&mut [f32], &mut [f32]), seen: usize, log_sum: f32, mean: f32) {
    let (scores, hidden) = scores.split_at_mut(seen);
    let (gradient, by_hidden) = gradient.split_at_mut(seen);
    hidden.fill(0.0);
    by_hidden.fill(0.0);
    for (score, gradient) in scores.iter_mut().zip(gradient) {
        *score = exp(*score - log_sum);
        *gradient = *score * (*gradient - mean);
    }
}
