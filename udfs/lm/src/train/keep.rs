//! Activation checkpointing: which activations the forward pass keeps, and their memory.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::loss::chunk_rows;
use crate::Result;
use crate::model::config::ModelConfig;
use crate::model::layer::Run;
use crate::model::weights::LayerWeights;

/// Which activations of each layer to keep for the backward pass (activation checkpointing). The rest are recomputed
/// with the same operations, so all three settings give bit-identical weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keep {
    /// The input only.
    Inputs,
    /// Also the inputs and outputs of attention.
    Attention,
    /// All activations that the backward pass needs.
    All,
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let named = Self::ALL.into_iter().find(|keep| keep.to_string() == text);
        named.ok_or_else(|| "expected inputs, attention or all".to_string())
    }
}

impl Display for Keep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl Keep {
    /// All settings, smallest memory first.
    pub const ALL: [Self; 3] = [Self::Inputs, Self::Attention, Self::All];

    /// Returns the bytes of a micro-batch of `tokens` tokens, including scratch memory of its backward pass.
    /// [`state_bytes`] come on top. Exact except for some megabytes of scratch memory per core.
    pub fn bytes(self, config: &ModelConfig, tokens: usize) -> u64 {
        let heads = config.heads();
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let (layers, queries, keys) = (config.num_hidden_layers, heads.query_width(), heads.key_width());
        let attended = 2 * queries + 2 * keys + heads.query;
        let mlp = hidden + 2 * wide;
        let kept = layers * hidden
            + attended * if self >= Self::Attention { layers } else { 1 }
            + mlp * if self == Self::All { layers } else { 1 };
        // Scratch memory: the residual stream or its gradient, the MLP's product, a norm, and in attention the
        // gradients of its output, queries, keys and values.
        let room = 2 * hidden + wide + 2 * queries + 2 * keys;
        let logits = tokens.min(chunk_rows(config.vocab_size)) * config.vocab_size;
        4 * (tokens as u64 * (kept + room) as u64 + logits as u64)
    }

    /// Returns the setting that keeps most within `bytes`, if one fits.
    pub fn most_within(bytes: u64, config: &ModelConfig, tokens: usize) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|keep| keep.bytes(config, tokens) <= bytes)
    }
}

/// Returns the bytes of the parameters in training: weight, gradient and two moments each, in f32.
pub fn state_bytes(config: &ModelConfig) -> u64 {
    16 * config.parameters()
}

/// Resizes an array without excess capacity; its contents are unspecified.
pub(super) fn room(array: &mut Vec<f32>, length: usize) {
    if array.capacity() < length {
        *array = Vec::new();
        array.reserve_exact(length);
    }
    array.resize(length, 0.0);
}

/// Kept activations of a micro-batch; the next micro-batch reuses the memory.
#[derive(Debug)]
pub(super) struct Kept {
    keep: Keep,
    pub inputs: Vec<Vec<f32>>,
    attended: Vec<Attended>,
    mlps: Vec<Mlp>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Attended {
    pub q: Vec<f32>,
    pub k: Vec<f32>,
    pub v: Vec<f32>,
    pub gathered: Vec<f32>,
    pub log_sums: Vec<f32>,
}

/// The arrays of [`LeftByMlp`](crate::model::layer::LeftByMlp).
pub(crate) type Mlp = [Vec<f32>; 3];

impl Attended {
    pub(crate) fn compute(&mut self, run: &Run, layer: &LayerWeights, input: &[f32]) -> Result<()> {
        run.project(layer, input, [&mut self.q, &mut self.k, &mut self.v])?;
        run.attend(run.chains, [&self.q, &self.k, &self.v], [&mut self.gathered, &mut self.log_sums])
    }
}

impl Kept {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, inputs: vec![], attended: vec![], mlps: vec![] }
    }

    pub(super) fn reserve(&mut self, config: &ModelConfig, tokens: usize) {
        let (heads, layers) = (config.heads(), config.num_hidden_layers);
        self.inputs.resize(layers, vec![]);
        self.inputs.iter_mut().for_each(|input| room(input, tokens * config.hidden_size));
        self.attended.resize(if self.keep >= Keep::Attention { layers } else { 1 }, Attended::default());
        for Attended { q, k, v, gathered, log_sums } in &mut self.attended {
            [q, gathered].into_iter().for_each(|array| room(array, tokens * heads.query_width()));
            [k, v].into_iter().for_each(|array| room(array, tokens * heads.key_width()));
            room(log_sums, tokens * heads.query);
        }
        self.mlps.resize(if self.keep == Keep::All { layers } else { 1 }, Mlp::default());
        for [half, gate, up] in &mut self.mlps {
            room(half, tokens * config.hidden_size);
            [gate, up].into_iter().for_each(|array| room(array, tokens * config.intermediate_size));
        }
    }

    /// Returns the activations of a layer. All layers share one set of those that are not kept.
    pub(super) fn layer(&mut self, layer: usize) -> (&mut Vec<f32>, &mut Attended, &mut Mlp) {
        let (attended, mlp) = (layer % self.attended.len(), layer % self.mlps.len());
        (&mut self.inputs[layer], &mut self.attended[attended], &mut self.mlps[mlp])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::weights::Weights;
    use crate::testing::golden;

    #[test]
    fn the_bytes_that_are_said_are_those_of_the_arrays() {
        let config = ModelConfig::load(&golden("qwen2")).unwrap();
        let floats = |keep: Keep| -> u64 {
            let mut kept = Kept::new(keep);
            kept.reserve(&config, 100);
            kept.reserve(&config, 70);
            let mut sum: usize = kept.inputs.iter().map(Vec::capacity).sum();
            for Attended { q, k, v, gathered, log_sums } in &kept.attended {
                sum += [q, k, v, gathered, log_sums].map(Vec::capacity).iter().sum::<usize>();
            }
            sum += kept.mlps.iter().flatten().map(Vec::capacity).sum::<usize>();
            sum as u64
        };
        let [inputs, attention, all] = Keep::ALL.map(|keep| keep.bytes(&config, 100));
        assert_eq!(attention - inputs, 4 * (floats(Keep::Attention) - floats(Keep::Inputs)));
        assert_eq!(all - attention, 4 * (floats(Keep::All) - floats(Keep::Attention)));
        assert!(inputs > 4 * floats(Keep::Inputs) && floats(Keep::Inputs) > 0);

        assert_eq!(Keep::most_within(attention, &config, 100), Some(Keep::Attention));
        assert_eq!(Keep::most_within(inputs - 1, &config, 100), None);
        let parameters: usize = {
            let weights: Weights = Weights::load(&golden("qwen2"), &config).unwrap();
            weights.named().iter().map(|(_, tensor)| tensor.elem_count()).sum()
        };
        assert_eq!(state_bytes(&config), 16 * parameters as u64);
    }
}
