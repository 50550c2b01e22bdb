//! Tokens on their way through the layers: rows of numbers, a block of tokens at a time on each core.
//!
//! ```text
//! block: norm ─ q, k, v ─ rotate ──▶ all cores: attention ──▶ block: output projection ─ norm ─ gate, up ─ down
//! ```

use std::ops::Range;

use candle_core::Tensor;

use super::config::ModelConfig;
use super::ops::{self, Cores, Direction, Linear, Pool, Projection, Sequence, Softmax, Update};
use super::rope::RopeTable;
use super::weights::{LayerWeights, Weights};
use super::{LmError, Result};

/// The most tokens of a block: between the projections of an MLP a token is several times as wide.
const BLOCK: usize = 512;

/// Tokens that go through the layers together: chains up to as many, or a part of a longer chain.
pub const TOKENS_PER_PASS: usize = 8192;

/// Whether somebody still waits for what is computed.
pub type IsWanted<'a> = dyn Fn() -> bool + Sync + 'a;

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

/// One run of tokens through the layers of a decoder.
pub(super) struct Pass<'a, M> {
    config: &'a ModelConfig,
    weights: &'a Weights<M>,
    chains: &'a [Sequence],
    /// Each token's place in its chain.
    positions: Vec<usize>,
    table: &'a RopeTable,
    /// Tokens of a block.
    block: usize,
    /// Who computes the products of a block.
    cores: Cores,
    is_wanted: &'a IsWanted<'a>,
    scratch: Pool<Scratch>,
    softmax: Pool<Softmax>,
}

/// What a block needs between its products.
#[derive(Debug, Default)]
struct Scratch {
    normed: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
}

impl<'a, M: Projection> Pass<'a, M> {
    /// A run of the tokens of `chains`; `table` holds their positions.
    pub(super) fn new(
        config: &'a ModelConfig,
        weights: &'a Weights<M>,
        chains: &'a [Sequence],
        table: &'a RopeTable,
        is_wanted: &'a IsWanted<'a>,
    ) -> Self {
        let positions: Vec<usize> =
            chains.iter().flat_map(|chain| chain.earlier..chain.earlier + chain.tokens).collect();
        let cores = rayon::current_num_threads();
        // As many blocks for each core, of one size; small ones are not worth a core.
        let blocks = positions.len().div_ceil(BLOCK).next_multiple_of(cores);
        let block = positions.len().div_ceil(blocks).max(32);
        let cores = if positions.len() <= block { Cores::All } else { Cores::One };
        let (scratch, softmax) = (Pool::default(), Pool::default());
        Self { config, weights, chains, positions, table, block, cores, is_wanted, scratch, softmax }
    }

    /// Turns embeddings, [tokens, hidden], into hidden states after the final norm. With `before`, the one chain goes on
    /// from there, and its keys and values are added to it.
    ///
    /// # Errors
    /// If weights cannot be read, and [`LmError::Abandoned`] where nobody waits any longer.
    pub(super) fn run(&self, x: &mut [f32], mut before: Option<&mut KvCache>) -> Result<()> {
        let (weights, heads, tokens) = (self.weights, self.config.heads(), self.positions.len());
        let mut q = vec![0.0; tokens * heads.query * heads.width];
        let mut gathered = q.clone();
        let mut log_sums = vec![0.0; tokens * heads.query];
        let mut own = [vec![], vec![]];
        for (index, layer) in weights.layers.iter().enumerate() {
            own.iter_mut().for_each(Vec::clear);
            let [keys, values] = match &mut before {
                Some(before) => &mut before.layers[index],
                None => &mut own,
            };
            self.project(layer, x, &mut q, keys, values)?;
            ops::attend([&q, keys, values], heads, self.chains, &self.softmax, [&mut gathered, &mut log_sums])?;
            self.finish(layer, x, &gathered)?;
        }
        if let Some(before) = before {
            before.tokens += tokens;
        }
        let blocks = x.chunks_mut(self.block * self.config.hidden_size).collect();
        ops::on_all_cores(blocks, |rows| self.norm(rows, &weights.norm))
    }

    /// Computes rotated queries, and appends rotated keys and values.
    fn project(
        &self,
        layer: &LayerWeights<M>,
        x: &[f32],
        q: &mut [f32],
        keys: &mut Vec<f32>,
        values: &mut Vec<f32>,
    ) -> Result<()> {
        let (heads, earlier) = (self.config.heads(), keys.len());
        let (query_width, key_width) = (heads.query * heads.width, heads.key * heads.width);
        for appended in [&mut *keys, &mut *values] {
            appended.resize(earlier + self.positions.len() * key_width, 0.0);
        }
        let queries = x.chunks(self.block * self.config.hidden_size).zip(q.chunks_mut(self.block * query_width));
        let keys = keys[earlier..].chunks_mut(self.block * key_width);
        let values = values[earlier..].chunks_mut(self.block * key_width);
        let blocks = queries.zip(keys.zip(values)).zip(self.positions.chunks(self.block)).collect();
        ops::on_all_cores(blocks, |(((x, q), (k, v)), positions)| {
            self.go_on()?;
            self.scratch.with(|Scratch { normed, .. }| {
                normed.clear();
                normed.extend_from_slice(x);
                self.norm(normed, &layer.input_norm)?;
                self.linear(&layer.q, normed, q, Update::Replace)?;
                self.linear(&layer.k, normed, k, Update::Replace)?;
                self.linear(&layer.v, normed, v, Update::Replace)?;
                if let (Some(q_norm), Some(k_norm)) = (&layer.q_norm, &layer.k_norm) {
                    self.norm(q, q_norm)?;
                    self.norm(k, k_norm)?;
                }
                ops::rotate_rows(q, query_width, positions, self.table, Direction::Forward);
                ops::rotate_rows(k, key_width, positions, self.table, Direction::Forward);
                Ok(())
            })
        })
    }

    /// Adds to `x` the projection of what the heads gathered, then what the MLP makes of it.
    fn finish(&self, layer: &LayerWeights<M>, x: &mut [f32], gathered: &[f32]) -> Result<()> {
        let (heads, config) = (self.config.heads(), self.config);
        let blocks = x.chunks_mut(self.block * config.hidden_size);
        let blocks = blocks.zip(gathered.chunks(self.block * heads.query * heads.width)).collect();
        ops::on_all_cores(blocks, |(x, gathered)| {
            self.go_on()?;
            self.scratch.with(|Scratch { normed, gate, up }| {
                self.linear(&layer.o, gathered, x, Update::Add)?;
                normed.clear();
                normed.extend_from_slice(x);
                self.norm(normed, &layer.post_norm)?;
                let wide = x.len() / config.hidden_size * config.intermediate_size;
                gate.resize(wide, 0.0);
                up.resize(wide, 0.0);
                layer.gate.multiply(normed, gate, Update::Replace, self.cores)?;
                layer.up.multiply(normed, up, Update::Replace, self.cores)?;
                ops::swiglu_rows(gate, up);
                layer.down.multiply(gate, x, Update::Add, self.cores)
            })
        })
    }

    /// A block takes about a second where a model is large: nobody should wait for more that is for nobody.
    fn go_on(&self) -> Result<()> {
        if (self.is_wanted)() { Ok(()) } else { Err(LmError::Abandoned) }
    }

    fn norm(&self, rows: &mut [f32], weight: &Tensor) -> Result<()> {
        ops::read([weight], |[weight]| ops::rms_norm_rows(rows, weight, self.config.rms_norm_eps))
    }

    fn linear(&self, linear: &Linear<M>, x: &[f32], to: &mut [f32], write: Update) -> Result<()> {
        linear.weight.multiply(x, to, write, self.cores)?;
        match &linear.bias {
            Some(bias) => ops::read([bias], |[bias]| ops::add_to_rows(to, bias)),
            None => Ok(()),
        }
    }
}
