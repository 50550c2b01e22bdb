//! One layer: its forward pass, which keeps what the gradient needs, and its gradient.

use candle_core::Tensor;

use super::attention::attention;
use super::gradients;
use crate::Result;
use crate::decoder::Decoder;
use crate::ops::Linear;
use crate::ops::{self, Attention, Direction, matrix, product};
use crate::rope::RopeTable;
use crate::weights::LayerWeights;

/// Chains that follow each other in one run of tokens, without padding.
#[derive(Debug, Clone)]
pub struct Packing {
    /// Tokens of each chain.
    lengths: Vec<usize>,
    /// Each token's place in its chain, from 0.
    positions: Vec<usize>,
    /// The rotations of all positions.
    table: RopeTable,
}

impl Packing {
    /// Chains of these lengths.
    pub fn new(decoder: &Decoder, lengths: &[usize]) -> Self {
        Self {
            lengths: lengths.to_vec(),
            positions: lengths.iter().flat_map(|length| 0..*length).collect(),
            table: decoder.rope_table(lengths.iter().copied().max().unwrap_or(0)),
        }
    }
}

/// What the attention half of a layer computes.
#[derive(Debug, Clone)]
struct AttentionHalf {
    /// The input, normalised: [tokens, hidden].
    normed: Tensor,
    /// Rotated queries: [tokens, heads × head_dim].
    q: Tensor,
    /// Rotated keys: [tokens, key heads × head_dim].
    k: Tensor,
    /// Values: [tokens, key heads × head_dim].
    v: Tensor,
    /// What the heads gathered.
    attention: Attention,
    /// The input plus the projection of what the heads gathered: [tokens, hidden].
    output: Tensor,
}

/// What the gradient of a layer needs. Norms, their queries and keys and the MLP's product are computed again.
#[derive(Debug)]
pub struct Kept {
    /// The layer's input, [tokens, hidden].
    input: Tensor,
    half: AttentionHalf,
    /// [tokens, intermediate].
    gate: Tensor,
    /// [tokens, intermediate].
    up: Tensor,
}

/// The output of a layer, [tokens, hidden], and what its gradient needs.
pub fn forward(decoder: &Decoder, layer: &LayerWeights, input: Tensor, packing: &Packing) -> Result<(Tensor, Kept)> {
    let half = attention_half(decoder, layer, &input, packing)?;
    let normed = ops::rms_norm(&half.output, &layer.post_norm, decoder.config.rms_norm_eps)?;
    let gate = times(&normed, &layer.gate.t()?)?;
    let up = times(&normed, &layer.up.t()?)?;
    let output = (&half.output + times(&ops::swiglu(&gate, &up)?, &layer.down.t()?)?)?;
    Ok((output, Kept { input, half, gate, up }))
}

fn attention_half(decoder: &Decoder, layer: &LayerWeights, x: &Tensor, packing: &Packing) -> Result<AttentionHalf> {
    let epsilon = decoder.config.rms_norm_eps;
    let normed = ops::rms_norm(x, &layer.input_norm, epsilon)?;
    let mut q = ops::linear(&normed, &layer.q)?;
    let mut k = ops::linear(&normed, &layer.k)?;
    let v = ops::linear(&normed, &layer.v)?;
    if let (Some(q_norm), Some(k_norm)) = (&layer.q_norm, &layer.k_norm) {
        q = ops::rms_norm(&q, q_norm, epsilon)?;
        k = ops::rms_norm(&k, k_norm, epsilon)?;
    }
    let q = ops::rotate(&q, &packing.positions, &packing.table, Direction::Forward)?;
    let k = ops::rotate(&k, &packing.positions, &packing.table, Direction::Forward)?;
    let attention = ops::attention(&q, &k, &v, decoder.config.heads(), &packing.lengths)?;
    let output = (x + ops::linear(&attention.output, &layer.o)?)?;
    Ok(AttentionHalf { normed, q, k, v, attention, output })
}

/// The gradients by a layer's input and by its weights, from the gradient of its output.
pub fn backward(
    decoder: &Decoder,
    layer: &LayerWeights,
    kept: &Kept,
    gradient: &Tensor,
    packing: &Packing,
) -> Result<(Tensor, LayerWeights)> {
    let epsilon = decoder.config.rms_norm_eps;
    let Kept { input, half, .. } = kept;
    let mlp = mlp_backward(layer, kept, gradient, epsilon)?;
    let by_half = (gradient + mlp.by_input)?;

    let (by_output, o) = gradients::linear(&by_half, &half.attention.output, &layer.o)?;
    let qkv = [&half.q, &half.k, &half.v];
    let by_heads = attention(&by_output, qkv, &half.attention, decoder.config.heads(), &packing.lengths)?;
    let (by_q, q, q_norm) = projection_backward(&by_heads.q, half, &layer.q, layer.q_norm.as_ref(), epsilon, packing)?;
    let (by_k, k, k_norm) = projection_backward(&by_heads.k, half, &layer.k, layer.k_norm.as_ref(), epsilon, packing)?;
    let (by_v, v) = gradients::linear(&by_heads.v, &half.normed, &layer.v)?;
    let by_normed = ((by_q + by_k)? + by_v)?;
    let (by_input, input_norm) = gradients::rms_norm(&by_normed, input, &layer.input_norm, epsilon)?;

    let Mlp { post_norm, gate, up, down, .. } = mlp;
    let by_weights = LayerWeights { input_norm, q, k, v, o, q_norm, k_norm, post_norm, gate, up, down };
    Ok(((by_half + by_input)?, by_weights))
}

/// The gradients of the MLP half by its input, without the residual, and by its weights.
struct Mlp {
    by_input: Tensor,
    post_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

fn mlp_backward(layer: &LayerWeights, kept: &Kept, gradient: &Tensor, epsilon: f64) -> Result<Mlp> {
    let Kept { half, gate, up, .. } = kept;
    let down = times(&gradient.t()?, &ops::swiglu(gate, up)?)?;
    let (by_gate, by_up) = gradients::swiglu(&times(gradient, &layer.down)?, gate, up)?;
    let normed = ops::rms_norm(&half.output, &layer.post_norm, epsilon)?;
    let (gate, up) = (times(&by_gate.t()?, &normed)?, times(&by_up.t()?, &normed)?);
    let by_normed = (times(&by_gate, &layer.gate)? + times(&by_up, &layer.up)?)?;
    let (by_input, post_norm) = gradients::rms_norm(&by_normed, &half.output, &layer.post_norm, epsilon)?;
    Ok(Mlp { by_input, post_norm, gate, up, down })
}

/// From the gradient of rotated queries or keys, the gradients by the layer's normed input, by the projection and by the
/// norm of each head, where there is one.
fn projection_backward(
    gradient: &Tensor,
    half: &AttentionHalf,
    projection: &Linear,
    norm: Option<&Tensor>,
    epsilon: f64,
    packing: &Packing,
) -> Result<(Tensor, Linear, Option<Tensor>)> {
    let mut gradient = ops::rotate(gradient, &packing.positions, &packing.table, Direction::Backward)?;
    let mut by_norm = None;
    if let Some(weight) = norm {
        let projected = ops::linear(&half.normed, projection)?;
        let (by_projected, by_weight) = gradients::rms_norm(&gradient, &projected, weight, epsilon)?;
        (gradient, by_norm) = (by_projected, Some(by_weight));
    }
    let (by_normed, by_projection) = gradients::linear(&gradient, &half.normed, projection)?;
    Ok((by_normed, by_projection, by_norm))
}

fn times(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    matrix(product(a, b)?, b.dim(1)?)
}
