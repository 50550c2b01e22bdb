//! Gradient accumulation: the gradient of a step, summed over its micro-batches.

use candle_core::Tensor;
use rayon::prelude::*;

use crate::Result;
use crate::model::config::ModelConfig;
use crate::model::weights::{LayerWeights, Weights};
use crate::ops::gradients::sum_of_squares;

const PART: usize = 1 << 10;

/// The gradient of every weight tensor, in the order of [`Weights::named`].
#[derive(Debug, Clone)]
pub struct Gradient {
    pub(super) tensors: Vec<Vec<f32>>,
}

pub(super) type ModelGradient<'a> = Weights<&'a mut [f32], &'a mut [f32]>;
pub(super) type LayerGradient<'a> = LayerWeights<&'a mut [f32], &'a mut [f32]>;

impl Gradient {
    pub fn zeros(weights: &Weights) -> Self {
        let zeros = |(_, tensor): (String, &Tensor)| vec![0.0; tensor.elem_count()];
        Self { tensors: weights.named().into_iter().map(zeros).collect() }
    }

    pub fn clear(&mut self) {
        self.tensors.par_iter_mut().for_each(|tensor| tensor.fill(0.0));
    }

    /// The Euclidean norm over all weights.
    pub fn norm(&self) -> f64 {
        let squares = |part: &[f32]| f64::from(sum_of_squares(part));
        // Sum parts in order, so that the result does not depend on the number of threads.
        let tensor = |tensor: &Vec<f32>| tensor.par_chunks(PART).map(squares).collect::<Vec<_>>().iter().sum::<f64>();
        self.tensors.iter().map(tensor).sum::<f64>().sqrt()
    }

    /// Borrows the gradient of each weight, so that the caller can add to it. `config` must be that of the weights
    /// passed to [`Gradient::zeros`].
    pub(super) fn by_weights(&mut self, config: &ModelConfig) -> Result<ModelGradient<'_>> {
        let mut tensors = self.tensors.iter_mut();
        let next = |_: &str, _: &[usize]| Ok(tensors.next().map(Vec::as_mut_slice).unwrap_or_default());
        Weights::build_with(config, next, Ok)
    }
}
