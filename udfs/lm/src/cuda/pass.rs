//! The forward pass through the layers.

use super::gpu::{SHRUNK, Update};
use super::tiles::tiles;
use super::{CudaModel, KvCache};
use crate::Result;
use crate::ops::Sequence;

impl CudaModel {
    /// Computes the hidden states of `ids` before the final norm into the buffer `x`. With `before`, they are one chain
    /// that continues from this KV cache and extends it.
    pub(super) fn pass(&mut self, ids: &[u32], chains: &[Sequence], mut before: Option<&mut [KvCache]>) -> Result<()> {
        let Self { config, gpu, weights, buffers, angles, .. } = self;
        let (tokens, hidden, epsilon) = (ids.len(), config.hidden_size, config.rms_norm_eps as f32);
        let heads = config.heads();
        let positions: Vec<u32> =
            chains.iter().flat_map(|chain| chain.earlier as u32..(chain.earlier + chain.tokens) as u32).collect();
        let (ids, positions, tiles) = (gpu.copied(ids)?, gpu.copied(&positions)?, gpu.copied(&tiles(chains))?);
        let first_key = before.as_ref().map_or(0, |_| chains[0].earlier) * heads.key * heads.width;
        gpu.embed(&weights.embed.numbers, &ids, &mut buffers.x, tokens, hidden)?;
        for (index, layer) in weights.layers.iter().enumerate() {
            let [keys, values] = match &mut before {
                Some(before) => &mut before[index],
                None => &mut buffers.own,
            };
            gpu.rms_norm(&buffers.x, &layer.input_norm, None, &mut buffers.normed, [tokens, hidden], epsilon)?;
            gpu.product(&buffers.normed, tokens, &layer.joined, None, &mut buffers.joined, Update::Replace)?;
            gpu.split_heads(
                &buffers.joined,
                layer,
                angles.each_ref(),
                &positions,
                &mut buffers.queries,
                [&mut keys.slice_mut(first_key..), &mut values.slice_mut(first_key..)],
                (tokens, heads),
                epsilon,
            )?;
            gpu.attend([&buffers.queries, keys, values], &mut buffers.gathered, &tiles, heads)?;
            gpu.product(&buffers.gathered, tokens, &layer.o, None, &mut buffers.x, Update::Add(1.0))?;
            if let Some(bias) = &layer.o_bias {
                gpu.add_to_rows(&mut buffers.x, bias, tokens, hidden)?;
            }
            gpu.rms_norm(&buffers.x, &layer.post_norm, None, &mut buffers.normed, [tokens, hidden], epsilon)?;
            gpu.product(&buffers.normed, tokens, &layer.gate_and_up, None, &mut buffers.gate_and_up, Update::Replace)?;
            gpu.swiglu(&buffers.gate_and_up, &mut buffers.activated, tokens, config.intermediate_size)?;
            gpu.product(&buffers.activated, tokens, &layer.down, None, &mut buffers.x, Update::Add(SHRUNK))?;
        }
        Ok(())
    }
}
