//! Tokens on their way through the layers.

use super::gpu::{SHRUNK, Write};
use super::tiles::tiles;
use super::{CudaModel, KeysAndValues};
use crate::lm::Result;
use crate::lm::ops::Chain;

impl CudaModel {
    /// Leaves the hidden states of `ids` before the final norm in the room's `x`. With `before`, they are one chain that
    /// goes on from there, and its keys and values are added to it.
    pub(super) fn pass(
        &mut self,
        ids: &[u32],
        chains: &[Chain],
        mut before: Option<&mut [KeysAndValues]>,
    ) -> Result<()> {
        let Self { config, gpu, weights, room, angles, .. } = self;
        let (tokens, hidden, epsilon) = (ids.len(), config.hidden_size, config.rms_norm_eps as f32);
        let heads = config.heads();
        let positions: Vec<u32> =
            chains.iter().flat_map(|chain| chain.earlier as u32..(chain.earlier + chain.tokens) as u32).collect();
        let (ids, positions, tiles) = (gpu.copied(ids)?, gpu.copied(&positions)?, gpu.copied(&tiles(chains))?);
        let first_key = before.as_ref().map_or(0, |_| chains[0].earlier) * heads.key * heads.width;
        gpu.embed(&weights.embed.numbers, &ids, &mut room.x, tokens, hidden)?;
        for (index, layer) in weights.layers.iter().enumerate() {
            let [keys, values] = match &mut before {
                Some(before) => &mut before[index],
                None => &mut room.own,
            };
            gpu.rms_norm(&room.x, &layer.input_norm, None, &mut room.normed, [tokens, hidden], epsilon)?;
            gpu.product(&room.normed, tokens, &layer.joined, &mut room.joined, Write::Replace)?;
            gpu.split_heads(
                &room.joined,
                layer,
                [&angles.cosines, &angles.sines],
                &positions,
                &mut room.queries,
                [&mut keys.slice_mut(first_key..), &mut values.slice_mut(first_key..)],
                (tokens, heads),
                epsilon,
            )?;
            gpu.attend([&room.queries, keys, values], &mut room.gathered, &tiles, heads)?;
            gpu.product(&room.gathered, tokens, &layer.o, &mut room.x, Write::Add(1.0))?;
            if let Some(bias) = &layer.o_bias {
                gpu.add_to_rows(&mut room.x, bias, tokens, hidden)?;
            }
            gpu.rms_norm(&room.x, &layer.post_norm, None, &mut room.normed, [tokens, hidden], epsilon)?;
            gpu.product(&room.normed, tokens, &layer.gate_and_up, &mut room.gate_and_up, Write::Replace)?;
            gpu.swiglu(&room.gate_and_up, &mut room.activated, tokens, config.intermediate_size)?;
            gpu.product(&room.activated, tokens, &layer.down, &mut room.x, Write::Add(SHRUNK))?;
        }
        Ok(())
    }
}
