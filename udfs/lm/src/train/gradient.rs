//! Gradient accumulation: the gradient of a step, summed over its micro-batches.

use candle_core::Tensor;
use rayon::prelude::*;

use super::loss::HeadGradient;
use crate::model::weights::{LayerWeights, Weights};
use crate::ops::Linear;
use crate::ops::gradients::sum_of_squares;

const PART: usize = 1 << 10;

/// The gradient of every weight tensor, in the order of [`Weights::named`].
#[derive(Debug, Clone)]
pub struct Gradient {
    pub(super) tensors: Vec<Vec<f32>>,
}

pub(super) type ModelGradient<'a> = Weights<&'a mut [f32], &'a mut [f32]>;
pub(super) type LayerGradient<'a> = LayerWeights<&'a mut [f32], &'a mut [f32]>;

impl ModelGradient<'_> {
    pub(super) fn head(&mut self) -> HeadGradient<'_> {
        HeadGradient { norm: self.norm, output: self.lm_head.as_deref_mut().unwrap_or(self.embed) }
    }
}

impl<'a> LayerGradient<'a> {
    /// `next` returns the tensors in the order of [`LayerWeights::named`].
    fn slices(layer: &LayerWeights, mut next: impl FnMut() -> &'a mut [f32]) -> Self {
        let input_norm = next();
        let mut linear = |linear: &Linear| Linear { weight: next(), bias: linear.bias.as_ref().map(|_| next()) };
        let (q, k, v, o) = (linear(&layer.q), linear(&layer.k), linear(&layer.v), linear(&layer.o));
        let (q_norm, k_norm) = (layer.q_norm.as_ref().map(|_| next()), layer.k_norm.as_ref().map(|_| next()));
        let (post_norm, gate, up, down) = (next(), next(), next(), next());
        Self { input_norm, q, k, v, o, q_norm, k_norm, post_norm, gate, up, down }
    }
}

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

    /// Borrows the gradient of each weight, so that the caller can add to it. `weights` must be those passed to
    /// [`Gradient::zeros`].
    pub(super) fn by_weights(&mut self, weights: &Weights) -> ModelGradient<'_> {
        let mut tensors = self.tensors.iter_mut();
        let mut next = || tensors.next().map(Vec::as_mut_slice).unwrap_or_default();
        let embed = next();
        let layers = weights.layers.iter().map(|layer| LayerGradient::slices(layer, &mut next)).collect();
        ModelGradient { embed, layers, norm: next(), lm_head: weights.lm_head.as_ref().map(|_| next()) }
    }
}
