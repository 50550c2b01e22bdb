//! Forward and backward pass of a micro-batch.

use super::backward::{self, Room};
use super::gradient::{Gradient, ModelGradient};
use super::keep::{Kept, room};
use super::loss::{ChunkRoom, Head};
use super::{Batch, Keep};
use crate::Result;
use crate::backend::IsWanted;
use crate::model::decoder::Decoder;
use crate::model::layer::{LeftByMlp, Run};
use crate::ops::gradients::{ROWS_PER_SUM, add};
use crate::ops::{Sequence, read};

/// Most tokens per block: between the projections of an MLP a token is several times as wide.
const BLOCK: usize = 1024;

/// Returns the tokens per block, with equal blocks per core. The block size does not change any result.
fn block(tokens: usize) -> usize {
    tokens.div_ceil(rayon::current_num_threads()).min(BLOCK).next_multiple_of(ROWS_PER_SUM)
}

/// The activations of a micro-batch; the next micro-batch reuses the memory.
#[derive(Debug)]
pub struct Activations {
    keep: Keep,
    x: Vec<f32>,
    kept: Kept,
    room: Room,
    chunk: ChunkRoom,
}

impl Activations {
    /// No activations yet; [`Keep::bytes`] returns the memory of a micro-batch.
    pub fn new(keep: Keep) -> Self {
        Self { keep, x: vec![], kept: Kept::new(keep), room: Room::default(), chunk: ChunkRoom::default() }
    }

    /// Returns the sum of −ln P over the target tokens, in nats, and adds the gradient of `scale` times it to `sum`.
    ///
    /// # Errors
    /// If a token is not in the vocabulary, and [`LmError::Abandoned`](crate::LmError) once `is_wanted` returns false.
    pub fn gradient(
        &mut self,
        decoder: &Decoder,
        batch: &Batch,
        scale: f32,
        sum: &mut Gradient,
        is_wanted: &IsWanted,
    ) -> Result<f64> {
        let (config, weights) = (&decoder.config, &decoder.weights);
        let chain = |length: &usize| Sequence { earlier: 0, tokens: *length };
        let chains: Vec<Sequence> = batch.lengths.iter().map(chain).collect();
        let table = decoder.rope.table(batch.lengths.iter().copied().max().unwrap_or(0));
        let run = Run::new(config, &chains, &table, is_wanted).in_blocks(block(batch.ids.len()));
        room(&mut self.x, batch.ids.len() * config.hidden_size);
        decoder.embed(&batch.ids, &mut self.x)?;
        self.kept.reserve(config, batch.ids.len());
        self.forward(&run, decoder)?;

        let mut by = sum.by_weights(config)?;
        let learned = (batch.rows.as_slice(), batch.targets.as_slice());
        let nats = read([&weights.norm, weights.output()], |[norm, output]| {
            let head = Head { norm, epsilon: config.rms_norm_eps, output };
            let by_head = [&mut *by.norm, by.lm_head.as_deref_mut().unwrap_or(by.embed)];
            head.backward(&mut self.x, learned, scale, by_head, &mut self.chunk)
        })??;
        self.backward(&run, decoder, &mut by)?;
        for (id, row) in batch.ids.iter().zip(self.x.chunks_exact(config.hidden_size)) {
            add(&mut by.embed[*id as usize * row.len()..][..row.len()], row);
        }
        Ok(nats)
    }

    fn forward(&mut self, run: &Run, decoder: &Decoder) -> Result<()> {
        for (index, layer) in decoder.weights.layers.iter().enumerate() {
            let (input, attended, mlp) = self.kept.layer(index);
            input.copy_from_slice(&self.x);
            attended.compute(run, layer, input)?;
            let left =
                if self.keep == Keep::All { mlp.each_mut().map(Vec::as_mut_slice) } else { LeftByMlp::default() };
            run.finish(layer, &mut self.x, &attended.gathered, left)?;
        }
        Ok(())
    }

    /// Propagates the gradient in `x` back through the layers, which recompute what is not kept.
    fn backward(&mut self, run: &Run, decoder: &Decoder, by: &mut ModelGradient) -> Result<()> {
        for (index, (layer, by)) in decoder.weights.layers.iter().zip(&mut by.layers).enumerate().rev() {
            run.go_on()?;
            let (input, attended, mlp) = self.kept.layer(index);
            if self.keep == Keep::Inputs {
                attended.compute(run, layer, input)?;
            }
            if self.keep != Keep::All {
                run.leave_again(layer, input, &attended.gathered, mlp.each_mut().map(Vec::as_mut_slice))?;
            }
            backward::layer(run, layer, (input, attended, mlp), &mut self.x, by, &mut self.room)?;
        }
        Ok(())
    }
}
