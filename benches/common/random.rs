//! Random weights for the scoring benches.

use asap_lm::config::ModelConfig;
use asap_lm::ops::Weight;
use asap_lm::weights::Weights;
use candle_core::{DType, Device, Tensor};

/// Deterministic numbers within ±0.035.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn values(&mut self, count: usize) -> Vec<f32> {
        let draw = |_| {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            ((self.0 >> 40) as f32 / (1 << 24) as f32 - 0.5) * 0.07
        };
        (0..count).map(draw).collect()
    }

    /// Draws the weights of a model. Norms are near 1, as in trained models.
    pub(crate) fn weights<M: Weight>(&mut self, config: &ModelConfig) -> Weights<M> {
        let make = |name: &str, shape: &[usize]| {
            let mut values = self.values(shape.iter().product());
            if name.ends_with("norm.weight") {
                values.iter_mut().for_each(|value| *value += 1.0);
            }
            let dtype = if shape.len() == 2 { M::dtype(DType::F32) } else { DType::F32 };
            Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?)
        };
        Weights::build(config, make).unwrap()
    }
}

/// The tokens of a chain, and 40 rows whose next tokens are scored.
pub(crate) fn chain(tokens: usize, vocabulary: usize) -> (Vec<u32>, Vec<u32>) {
    let ids = (0..tokens).map(|i| (i * 7919 % vocabulary) as u32).collect();
    (ids, (1..=40).map(|i| (i * (tokens - 2) / 40) as u32).collect())
}
