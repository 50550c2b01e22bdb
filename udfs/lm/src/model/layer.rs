//! One layer, a block of tokens at a time per core. Scoring keeps no activations; training keeps those that the
//! gradient needs. Dropped activations are recomputed by the same operations, bit for bit.
//!
//! ```text
//! block: norm ─ q, k, v ─ rotate ──▶ all cores: attention ──▶ block: output projection ─ norm ─ gate, up ─ down
//! ```

use std::ops::Range;

use candle_core::Tensor;

use crate::backend::IsWanted;
use crate::model::config::ModelConfig;
use crate::model::weights::LayerWeights;
use crate::ops::{self, Arithmetic, Cores, Direction, Pool, Projection, RopeTable, Sees, Sequence, Softmax, Update};
use crate::{LmError, Result};

/// Most tokens per block: between the projections of an MLP a token is several times as wide.
const BLOCK: usize = 512;

pub(crate) struct Run<'a> {
    pub config: &'a ModelConfig,
    pub chains: &'a [Sequence],
    pub positions: Vec<usize>,
    pub table: &'a RopeTable,
    pub block: usize,
    pub cores: Cores,
    /// The arithmetic of attention.
    pub attention: Arithmetic,
    is_wanted: &'a IsWanted<'a>,
    scratch: Pool<Scratch>,
    softmax: Pool<Softmax>,
}

#[derive(Debug, Default)]
struct Scratch {
    normed: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
}

/// Activations of the MLP to keep for all tokens: its input, gate and up; empty slices keep nothing.
pub(crate) type LeftByMlp<'a> = [&'a mut [f32]; 3];

/// The number of rows per block that gives all cores equally many blocks of equal size.
fn shared(rows: usize) -> usize {
    let blocks = rows.div_ceil(BLOCK).max(1).next_multiple_of(rayon::current_num_threads());
    // Smaller blocks are not worth a core.
    rows.div_ceil(blocks).max(32)
}

pub(crate) fn rows_of<'a>(x: &'a [f32], rows: &Range<usize>, width: usize) -> &'a [f32] {
    &x[rows.start * width..rows.end * width]
}

fn cores_of(rows: usize, block: usize) -> Cores {
    if rows <= block { Cores::All } else { Cores::One }
}

impl<'a> Run<'a> {
    /// A forward pass of the tokens of `chains`, in equal blocks for all cores. `table` must cover their positions.
    pub(crate) fn new(
        config: &'a ModelConfig,
        chains: &'a [Sequence],
        table: &'a RopeTable,
        is_wanted: &'a IsWanted<'a>,
    ) -> Self {
        let positions: Vec<usize> =
            chains.iter().flat_map(|chain| chain.earlier..chain.earlier + chain.tokens).collect();
        let (block, cores) = (shared(positions.len()), Cores::One);
        let (scratch, softmax) = (Pool::default(), Pool::default());
        let attention = Arithmetic::Widened;
        Self { config, chains, positions, table, block, cores, attention, is_wanted, scratch, softmax }.in_blocks(block)
    }

    /// Uses blocks of a fixed size, whatever the number of cores.
    pub(crate) fn in_blocks(self, block: usize) -> Self {
        let cores = cores_of(self.positions.len(), block);
        Self { block, cores, ..self }
    }

    pub(crate) fn share_rows(&mut self, rows: usize) {
        self.block = shared(rows);
        self.cores = cores_of(rows, self.block);
    }

    /// Computes the queries, keys and values of a layer's input, with their norms and positions.
    pub(crate) fn project<M: Projection>(&self, layer: &LayerWeights<M>, x: &[f32], to: [&mut [f32]; 3]) -> Result<()> {
        let ([q, k, v], heads) = (to, self.config.heads());
        let arrays = [(q, heads.query_width()), (k, heads.key_width()), (v, heads.key_width())];
        ops::on_blocks(self.block, arrays, |tokens, [q, k, v]| {
            self.go_on()?;
            self.scratch.with(|Scratch { normed, .. }| {
                self.norm_into(normed, self.hidden_of(x, &tokens), &layer.input_norm)?;
                for (linear, to) in [(&layer.q, &mut *q), (&layer.k, &mut *k), (&layer.v, v)] {
                    linear.multiply(normed, to, Update::Replace, self.cores)?;
                }
                if let (Some(q_norm), Some(k_norm)) = (&layer.q_norm, &layer.k_norm) {
                    self.norm(q, q_norm)?;
                    self.norm(k, k_norm)?;
                }
                self.rotate(q, heads.query_width(), &tokens, Direction::Forward);
                self.rotate(k, heads.key_width(), &tokens, Direction::Forward);
                Ok(())
            })
        })
        .map(drop)
    }

    /// Computes the attention output, [tokens, heads × head_dim], and the log-sum-exp of scores, [tokens, heads].
    pub(crate) fn attend(&self, chains: &[Sequence], qkv: [&[f32]; 3], results: [&mut [f32]; 2]) -> Result<()> {
        let chains = (chains, Sees::Earlier);
        let how = (Cores::All, self.attention);
        Ok(ops::attend(qkv, self.config.heads(), chains, how, &self.softmax, results)?)
    }

    /// Adds the output projection of the attention output to `x`, then the MLP's output.
    pub(crate) fn finish<M: Projection>(
        &self,
        layer: &LayerWeights<M>,
        x: &mut [f32],
        gathered: &[f32],
        [half, gate, up]: LeftByMlp,
    ) -> Result<()> {
        let (hidden, wide) = (self.config.hidden_size, self.config.intermediate_size);
        let arrays = [(x, hidden), (half, hidden), (gate, wide), (up, wide)];
        ops::on_blocks(self.block, arrays, |tokens, [x, half, gate, up]| {
            self.go_on()?;
            self.scratch.with(|scratch| {
                let Scratch { normed, gate: activated, up: own_up } = scratch;
                let gathered = self.queries_of(gathered, &tokens);
                let activated = ops::at_least(activated, tokens.len() * wide);
                if gate.is_empty() {
                    let own_up = ops::at_least(own_up, tokens.len() * wide);
                    self.widen(layer, x, gathered, normed, [activated, own_up])?;
                    ops::swiglu_rows(activated, own_up);
                } else {
                    self.widen(layer, x, gathered, normed, [gate, up])?;
                    half.copy_from_slice(x);
                    ops::swiglu_to(gate, up, activated);
                }
                Ok(layer.down.multiply(activated, x, Update::Add, self.cores)?)
            })
        })
        .map(drop)
    }

    /// Recomputes the activations that [`Run::finish`] can keep, from the layer's input and the attention output.
    pub(crate) fn leave_again<M: Projection>(
        &self,
        layer: &LayerWeights<M>,
        input: &[f32],
        gathered: &[f32],
        [half, gate, up]: LeftByMlp,
    ) -> Result<()> {
        let (hidden, wide) = (self.config.hidden_size, self.config.intermediate_size);
        ops::on_blocks(self.block, [(half, hidden), (gate, wide), (up, wide)], |tokens, [half, gate, up]| {
            half.copy_from_slice(self.hidden_of(input, &tokens));
            self.scratch.with(|Scratch { normed, .. }| {
                self.widen(layer, half, self.queries_of(gathered, &tokens), normed, [gate, up])
            })
        })
        .map(drop)
    }

    /// Adds the output projection of a block to its `x`, and computes gate and up of the sum.
    fn widen<M: Projection>(
        &self,
        layer: &LayerWeights<M>,
        x: &mut [f32],
        gathered: &[f32],
        normed: &mut Vec<f32>,
        [gate, up]: [&mut [f32]; 2],
    ) -> Result<()> {
        layer.o.multiply(gathered, x, Update::Add, self.cores)?;
        self.norm_into(normed, x, &layer.post_norm)?;
        layer.gate.multiply(normed, gate, Update::Replace, self.cores)?;
        Ok(layer.up.multiply(normed, up, Update::Replace, self.cores)?)
    }

    pub(crate) fn norm_all(&self, x: &mut [f32], weight: &Tensor) -> Result<()> {
        ops::on_blocks(self.block, [(x, self.config.hidden_size)], |_, [rows]| self.norm(rows, weight)).map(drop)
    }

    fn norm_into(&self, normed: &mut Vec<f32>, rows: &[f32], weight: &Tensor) -> Result<()> {
        normed.resize(rows.len(), 0.0);
        Ok(ops::read([weight], |[weight]| ops::rms_norm_to(rows, weight, self.config.rms_norm_eps, normed))?)
    }

    pub(crate) fn hidden_of<'b>(&self, x: &'b [f32], tokens: &Range<usize>) -> &'b [f32] {
        rows_of(x, tokens, self.config.hidden_size)
    }

    fn queries_of<'b>(&self, x: &'b [f32], tokens: &Range<usize>) -> &'b [f32] {
        rows_of(x, tokens, self.config.heads().query_width())
    }

    pub(crate) fn rotate(&self, rows: &mut [f32], width: usize, tokens: &Range<usize>, direction: Direction) {
        ops::rotate_rows(rows, width, &self.positions[tokens.clone()], self.table, direction);
    }

    fn norm(&self, rows: &mut [f32], weight: &Tensor) -> Result<()> {
        Ok(ops::read([weight], |[weight]| ops::rms_norm_rows(rows, weight, self.config.rms_norm_eps))?)
    }

    /// Checked per block, which takes about a second in a large model: a canceled pass should end that soon.
    pub(crate) fn go_on(&self) -> Result<()> {
        if (self.is_wanted)() { Ok(()) } else { Err(LmError::Abandoned) }
    }
}
