//! AdamW with decoupled weight decay and gradient clipping by the global norm, in f32.

use std::cell::Cell;

use candle_core::{CpuStorage, InplaceOp1, Layout, Tensor};
use rayon::prelude::*;

use super::gradient::Gradient;
use crate::Result;
use crate::model::weights::Weights;
use crate::ops::adamw;

#[derive(Debug, Clone, PartialEq)]
pub struct AdamWConfig {
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    /// Weight decay of matrices, as a fraction of the learning rate; biases and norm weights do not decay.
    pub weight_decay: f64,
    /// Clip the gradient norm over all weights to this value.
    pub clip: f64,
}

/// The optimizer: two moments per weight. Weights are updated in place.
#[derive(Debug)]
pub struct AdamW {
    config: AdamWConfig,
    /// Per tensor, in the order of [`Weights::named`].
    pub(super) moments: Vec<Moments>,
    pub(super) steps: u64,
}

#[derive(Debug)]
pub(super) struct Moments {
    pub(super) first: Vec<f32>,
    pub(super) second: Vec<f32>,
    decays: bool,
}

const PART: usize = 1 << 16;

impl AdamW {
    pub fn new(config: AdamWConfig, weights: &Weights) -> Self {
        let moments = |(_, tensor): (String, &Tensor)| {
            let zeros = || vec![0.0; tensor.elem_count()];
            Moments { first: zeros(), second: zeros(), decays: tensor.rank() > 1 }
        };
        Self { config, moments: weights.named().into_iter().map(moments).collect(), steps: 0 }
    }

    /// Updates the weights in place by one step. `norm` is the [`Gradient::norm`] of `gradient`.
    pub fn step(&mut self, weights: &Weights, gradient: &Gradient, norm: f64, learning_rate: f64) -> Result<()> {
        let AdamWConfig { beta1, beta2, epsilon, weight_decay, clip } = self.config;
        self.steps += 1;
        // After i32::MAX steps, both corrections are exactly 1, so the number may saturate.
        let steps = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let step = adamw::Step {
            clipped: (clip / (norm + 1e-6)).min(1.0) as f32,
            size: (learning_rate / (1.0 - beta1.powi(steps))) as f32,
            second_correction: (1.0 - beta2.powi(steps)).sqrt() as f32,
            towards_first: (1.0 - beta1) as f32,
            keep_second: beta2 as f32,
            towards_second: (1.0 - beta2) as f32,
            epsilon: epsilon as f32,
        };
        let tensors = weights.named().into_iter().zip(&gradient.tensors);
        for (((_, tensor), gradient), Moments { first, second, decays }) in tensors.zip(&mut self.moments) {
            let keep = if *decays { (1.0 - learning_rate * weight_decay) as f32 } else { 1.0 };
            change(tensor, |values| {
                let moments = first.par_chunks_mut(PART).zip(second.par_chunks_mut(PART));
                let parts = values.par_chunks_mut(PART).zip(moments).zip(gradient.par_chunks(PART));
                parts.for_each(|((values, (first, second)), gradient)| {
                    step.make(values, [first, second], gradient, keep);
                });
            })?;
        }
        Ok(())
    }
}

/// Runs `change` on the numbers of a contiguous f32 tensor in CPU memory, in place.
pub(super) fn change<R>(tensor: &Tensor, change: impl FnOnce(&mut [f32]) -> R) -> Result<R> {
    struct Change<F, R>(Cell<Option<F>>, Cell<Option<R>>);

    impl<R, F: FnOnce(&mut [f32]) -> R> InplaceOp1 for Change<F, R> {
        fn name(&self) -> &'static str {
            "change-in-place"
        }

        fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
            let (CpuStorage::F32(values), Some((from, to))) = (storage, layout.contiguous_offsets()) else {
                return Err(candle_core::Error::msg("expected contiguous weights in f32"));
            };
            if let Some(change) = self.0.take() {
                self.1.set(Some(change(&mut values[from..to])));
            }
            Ok(())
        }
    }
    let change = Change(Cell::new(Some(change)), Cell::new(None));
    tensor.inplace_op1(&change)?;
    Ok(change.1.take().ok_or_else(|| candle_core::Error::msg("candle did not run the in-place change"))?)
}
