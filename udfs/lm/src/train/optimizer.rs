//! AdamW with decoupled weight decay and clipping by the global norm, all in f32.

use std::cell::Cell;

use candle_core::{CpuStorage, InplaceOp1, Layout, Tensor};
use rayon::prelude::*;

use super::gradient::Gradient;
use crate::Result;
use crate::ops::adamw;
use crate::weights::Weights;

/// The constants of AdamW.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamWConfig {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// What matrices lose per step, as a part of the learning rate; biases and the weights of norms lose nothing.
    pub weight_decay: f64,
    /// The gradient's norm over all weights is brought down to this.
    pub clip: f64,
}

/// The optimizer: two moments for each number of the weights, which stay where they are.
#[derive(Debug)]
pub struct AdamW {
    config: AdamWConfig,
    moments: Vec<Moments>,
    steps: u64,
}

#[derive(Debug)]
struct Moments {
    first: Vec<f32>,
    second: Vec<f32>,
    decays: bool,
}

const PART: usize = 1 << 16;

impl AdamW {
    /// An optimizer of these weights that has made no step.
    pub fn new(config: AdamWConfig, weights: &Weights) -> Self {
        let moments = |(_, tensor): (String, &Tensor)| {
            let zeros = || vec![0.0; tensor.elem_count()];
            Moments { first: zeros(), second: zeros(), decays: tensor.rank() > 1 }
        };
        Self { config, moments: weights.named().into_iter().map(moments).collect(), steps: 0 }
    }

    /// The steps that were made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The first and second moments, tensor by tensor in the order of [`Weights::named`].
    pub fn moments(&self) -> impl Iterator<Item = [&[f32]; 2]> {
        self.moments.iter().map(|moments| [moments.first.as_slice(), moments.second.as_slice()])
    }

    /// The same, to be filled with those of an optimizer that is gone on with.
    pub(super) fn moments_mut(&mut self) -> impl Iterator<Item = [&mut [f32]; 2]> {
        self.moments.iter_mut().map(|moments| [moments.first.as_mut_slice(), moments.second.as_mut_slice()])
    }

    pub(super) fn go_on_after(&mut self, steps: u64) {
        self.steps = steps;
    }

    /// Changes the weights, whose gradient has this [`Gradient::norm`], in their place by one step.
    ///
    /// # Errors
    /// If a tensor is not contiguous f32 on the CPU.
    pub fn step(&mut self, weights: &Weights, gradient: &Gradient, norm: f64, learning_rate: f64) -> Result<()> {
        let AdamWConfig { beta1, beta2, epsilon, weight_decay, clip } = self.config;
        self.steps += 1;
        // Beyond that the corrections are 1 to the last bit.
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
        let tensors = weights.named().into_iter().zip(gradient.tensors());
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

/// What `change` makes of the numbers of a contiguous f32 tensor in the CPU's memory, where they are.
pub(super) fn change<R>(tensor: &Tensor, change: impl FnOnce(&mut [f32]) -> R) -> Result<R> {
    struct Change<F, R>(Cell<Option<F>>, Cell<Option<R>>);

    impl<R, F: FnOnce(&mut [f32]) -> R> InplaceOp1 for Change<F, R> {
        fn name(&self) -> &'static str {
            "a change in place"
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
    Ok(change.1.take().ok_or_else(|| candle_core::Error::msg("a change in place was not made"))?)
}
