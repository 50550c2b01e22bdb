//! Tokens on their way through all layers: chains together, long ones in parts.

use std::ops::Range;

use super::Result;
use super::layer::{LeftByMlp, Run};
use super::ops::{Projection, Sequence};
use super::weights::Weights;

/// Tokens that go through the layers together: chains up to as many, or a part of a longer chain.
pub const TOKENS_PER_PASS: usize = 8192;

/// The rotated keys and the values of the tokens of one chain, in every layer.
#[derive(Debug, Clone)]
pub struct KvCache {
    /// Tokens of the chain.
    pub(super) tokens: usize,
    /// Each [tokens, key heads × head_dim].
    pub(super) layers: Vec<[Vec<f32>; 2]>,
}

/// Tokens that go through the layers together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Their places among all tokens.
    pub(super) tokens: Range<usize>,
    /// The chains that they are.
    pub(super) chains: Vec<Sequence>,
    /// Tokens of their chain, if it is too long to go at once: its keys and values are kept from part to part.
    pub(super) of: Option<usize>,
}

/// Chains that follow each other, `lengths` tokens each, in parts of at most [`TOKENS_PER_PASS`].
pub(super) fn chunked(lengths: &[usize]) -> Vec<Chunk> {
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

/// Turns embeddings, [tokens, hidden], into hidden states after the final norm. With `before`, the one chain goes on from
/// there, and its keys and values are added to it.
///
/// # Errors
/// If weights cannot be read, and [`LmError::Abandoned`](super::LmError) where nobody waits any longer.
pub(super) fn pass<M: Projection>(
    run: &Run,
    weights: &Weights<M>,
    x: &mut [f32],
    mut before: Option<&mut KvCache>,
) -> Result<()> {
    let (heads, tokens) = (run.config.heads(), run.positions.len());
    let mut q = vec![0.0; tokens * heads.query_width()];
    let mut gathered = q.clone();
    let mut log_sums = vec![0.0; tokens * heads.query];
    let mut own = [vec![], vec![]];
    for (index, layer) in weights.layers.iter().enumerate() {
        own.iter_mut().for_each(Vec::clear);
        let [keys, values] = match &mut before {
            Some(before) => &mut before.layers[index],
            None => &mut own,
        };
        let earlier = keys.len();
        for appended in [&mut *keys, &mut *values] {
            appended.resize(earlier + tokens * heads.key_width(), 0.0);
        }
        run.project(layer, x, [&mut q, &mut keys[earlier..], &mut values[earlier..]])?;
        run.attend([&q, keys, values], [&mut gathered, &mut log_sums])?;
        run.finish(layer, x, &gathered, LeftByMlp::default())?;
    }
    if let Some(before) = before {
        before.tokens += tokens;
    }
    run.norm_all(x, &weights.norm)
}
