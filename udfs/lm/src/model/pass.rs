//! The forward pass through all layers: short chains in one batch, long chains in parts.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use crate::backend::TOKENS_PER_PASS;
use crate::model::layer::{LeftByMlp, Run, rows_of};
use crate::model::weights::Weights;
use crate::ops::{self, Projection, Sequence};

static READ: AtomicU64 = AtomicU64::new(0);

/// Returns the number of tokens that models of this process have read. It grows layer by layer within a pass.
pub fn tokens_read() -> u64 {
    READ.load(Ordering::Relaxed)
}

pub(crate) fn count_read(tokens: usize) {
    READ.fetch_add(tokens as u64, Ordering::Relaxed);
}

/// The rotated keys and the values of the tokens of one chain, for every layer.
#[derive(Debug, Clone)]
pub(crate) struct KvCache {
    pub(crate) tokens: usize,
    pub(crate) layers: Vec<[Vec<f32>; 2]>,
}

impl KvCache {
    pub(crate) fn bytes(&self) -> usize {
        self.layers.iter().flatten().map(|values| size_of_val(values.as_slice())).sum()
    }

    /// Drops all tokens from this position on.
    pub(crate) fn truncate(&mut self, tokens: usize) {
        if tokens < self.tokens {
            for values in self.layers.iter_mut().flatten() {
                values.truncate(values.len() / self.tokens * tokens);
            }
            self.tokens = tokens;
        }
    }

    /// A copy that can grow by `tokens` without moving.
    pub(crate) fn copy_with_room(&self, tokens: usize) -> Self {
        let copy = |values: &Vec<f32>| {
            let width = values.len().checked_div(self.tokens).unwrap_or(0);
            let mut copy = Vec::with_capacity(values.len() + tokens * width);
            copy.extend_from_slice(values);
            copy
        };
        Self { tokens: self.tokens, layers: self.layers.iter().map(|layer| layer.each_ref().map(copy)).collect() }
    }
}

/// Returns how many of the first texts have at most `most` tokens together, given their token counts; at least one.
pub(crate) fn together(tokens: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut sum = 0;
    let fits = |tokens: &usize| {
        sum += tokens;
        sum <= most
    };
    tokens.take_while(fits).count().max(1)
}

/// Groups items in order, as many per group as have at most `most` tokens together; at least one.
pub(crate) fn groups<T>(items: &[T], tokens: impl Fn(&T) -> usize, most: usize) -> impl Iterator<Item = &[T]> {
    let mut rest = items;
    std::iter::from_fn(move || rest.split_off(..together(rest.iter().map(&tokens), most)))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) tokens: Range<usize>,
    pub(crate) chains: Vec<Sequence>,
    /// Length of their chain, if it is too long for one pass: its KV cache is kept between parts.
    pub(crate) of: Option<usize>,
}

/// Splits concatenated chains of these lengths into parts of at most [`TOKENS_PER_PASS`]. Chains stay in order, so that
/// a part is a range of the tokens. A part of a longer chain is alone: in a pass, all chains have KV caches or none has.
pub(crate) fn chunked(lengths: &[usize]) -> Vec<Chunk> {
    let mut parts: Vec<Chunk> = Vec::new();
    let mut first = 0;
    for length in lengths {
        match parts.last_mut() {
            Some(part) if part.of.is_none() && part.tokens.len() + length <= TOKENS_PER_PASS => {
                part.tokens.end += length;
                part.chains.push(Sequence { earlier: 0, tokens: *length });
            }
            _ => {
                let of = (*length > TOKENS_PER_PASS).then_some(*length);
                for earlier in (0..*length).step_by(TOKENS_PER_PASS) {
                    let tokens = TOKENS_PER_PASS.min(length - earlier);
                    let place = first + earlier;
                    parts.push(Chunk { tokens: place..place + tokens, chains: vec![Sequence { earlier, tokens }], of });
                }
            }
        }
        first += length;
    }
    parts
}

pub(crate) enum Before<'a, 'b> {
    /// The KV cache of each chain, which the pass extends; empty if no chain has one.
    Own(&'a mut [&'b mut KvCache]),
    /// The KV cache of one text, which is not changed; each chain continues from a prefix of it.
    Shared(&'a KvCache),
}

/// Turns embeddings, [tokens, hidden], into hidden states after the final norm. With `asked`, only of these rows: for
/// other tokens, the last layer computes only keys and values.
pub(crate) fn pass<M: Projection>(
    mut run: Run,
    weights: &Weights<M>,
    x: &mut Vec<f32>,
    mut before: Before,
    asked: Option<&[u32]>,
) -> Result<()> {
    let (heads, tokens) = (run.config.heads(), run.positions.len());
    let mut q = vec![0.0; tokens * heads.query_width()];
    let mut gathered = q.clone();
    let mut log_sums = vec![0.0; tokens * heads.query];
    let mut keys = vec![0.0; tokens * heads.key_width()];
    let mut values = keys.clone();
    let layers = weights.layers.len();
    for (index, layer) in weights.layers.iter().enumerate() {
        run.project(layer, x, [&mut q, &mut keys, &mut values])?;
        let (qkv, results) = ([&*q, &*keys, &*values], [&mut *gathered, &mut *log_sums]);
        match &mut before {
            Before::Own([]) => run.attend(run.chains, qkv, results)?,
            Before::Own(before) => attend_after(&run, index, before, qkv, results)?,
            Before::Shared(before) => attend_from(&run, &before.layers[index], qkv, results)?,
        }
        if let Some(asked) = asked.filter(|_| index + 1 == layers) {
            keep_rows(x, asked, run.config.hidden_size);
            keep_rows(&mut gathered, asked, heads.query_width());
            run.share_rows(asked.len());
        }
        run.finish(layer, x, &gathered, LeftByMlp::default())?;
        count_read(tokens * (index + 1) / layers - tokens * index / layers);
    }
    if let Before::Own(before) = before {
        before.iter_mut().zip(run.chains).for_each(|(before, chain)| before.tokens += chain.tokens);
    }
    run.norm_all(x, &weights.norm)
}

fn keep_rows(rows: &mut Vec<f32>, asked: &[u32], width: usize) {
    for (place, row) in asked.iter().enumerate() {
        let from = *row as usize * width;
        rows.copy_within(from..from + width, place * width);
    }
    rows.truncate(asked.len() * width);
}

type OfChain<'a> = (&'a Sequence, [&'a [f32]; 3], [&'a mut [f32]; 2]);

/// The queries, keys and values of each chain, and the parts of the results for it.
fn by_chain<'a>(run: &'a Run, qkv: [&'a [f32]; 3], results: [&'a mut [f32]; 2]) -> Vec<OfChain<'a>> {
    let (heads, [mut gathered, mut log_sums]) = (run.config.heads(), results);
    let mut from = 0;
    let of_chain = |chain: &'a Sequence| {
        let tokens = from..from + chain.tokens;
        from = tokens.end;
        let [queries, keys] = [heads.query_width(), heads.key_width()];
        let gathered = gathered.split_off_mut(..chain.tokens * queries).unwrap_or_default();
        let log_sums = log_sums.split_off_mut(..chain.tokens * heads.query).unwrap_or_default();
        let [q, k, v] =
            [(qkv[0], queries), (qkv[1], keys), (qkv[2], keys)].map(|(x, width)| rows_of(x, &tokens, width));
        (chain, [q, k, v], [gathered, log_sums])
    };
    run.chains.iter().map(of_chain).collect()
}

/// Attention of a layer for chains with KV caches; also appends the keys and values of the new tokens.
fn attend_after(
    run: &Run,
    layer: usize,
    before: &mut [&mut KvCache],
    qkv: [&[f32]; 3],
    results: [&mut [f32]; 2],
) -> Result<()> {
    let mut tasks = Vec::with_capacity(before.len());
    for ((chain, [q, k, v], results), before) in by_chain(run, qkv, results).into_iter().zip(before) {
        let [keys, values] = &mut before.layers[layer];
        keys.extend_from_slice(k);
        values.extend_from_slice(v);
        tasks.push((chain, [q, keys, values], results));
    }
    ops::on_all_cores(tasks, |(chain, qkv, results)| run.attend(std::slice::from_ref(chain), qkv, results)).map(drop)
}

/// Attention of a layer for chains that continue from one text with these keys and values.
fn attend_from(run: &Run, [keys, values]: &[Vec<f32>; 2], qkv: [&[f32]; 3], results: [&mut [f32]; 2]) -> Result<()> {
    let attend = |(chain, [q, k, v], results): OfChain| {
        let shared = ..chain.earlier * run.config.heads().key_width();
        // The core that needs them copies them, since keys and values must be contiguous.
        let (keys, values) = ([&keys[shared], k].concat(), [&values[shared], v].concat());
        run.attend(std::slice::from_ref(chain), [q, &keys, &values], results)
    };
    ops::on_all_cores(by_chain(run, qkv, results), attend).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_short_chains_are_one_pass_and_a_long_one_goes_in_parts() {
        let span = |part: &Chunk| (part.tokens.start, part.tokens.end);
        let parts = |lengths: &[usize]| chunked(lengths).iter().map(span).collect::<Vec<_>>();
        assert_eq!(parts(&[100; 64]), [(0, 6400)]);
        assert_eq!(parts(&[9000, 20, 8172, 1]), [(0, 8192), (8192, 9000), (9000, 17_192), (17_192, 17_193)]);
    }
}
