//! AdamW with decoupled weight decay and clipping by the global norm, all in f32.

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use crate::Result;
use crate::config::ModelConfig;
use crate::ops::read;
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

/// The optimizer: the weights in f32 with two moments for each of their numbers.
#[derive(Debug)]
pub struct AdamW {
    config: AdamWConfig,
    /// Tensor by tensor in the order of [`Weights::named`].
    parameters: Vec<Parameter>,
    steps: i32,
}

#[derive(Debug)]
struct Parameter {
    values: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    decays: bool,
}

/// The gradient of a step: for every tensor of the weights its gradient, in the order of [`Weights::named`].
#[derive(Debug, Clone)]
pub struct Gradient {
    tensors: Vec<Vec<f32>>,
}

impl Gradient {
    /// A gradient of zeros.
    pub fn zeros(weights: &Weights) -> Self {
        let zeros = |(_, tensor): (String, &Tensor)| vec![0.0; tensor.elem_count()];
        Self { tensors: weights.named().into_iter().map(zeros).collect() }
    }

    /// Adds the gradient of one micro-batch, which has the shape of the weights.
    ///
    /// # Errors
    /// If a tensor of it is not contiguous f32 on the CPU.
    pub fn add(&mut self, micro_batch: &Weights) -> Result<()> {
        for (sum, (_, tensor)) in self.tensors.iter_mut().zip(micro_batch.named()) {
            read([tensor], |[addends]| sum.iter_mut().zip(addends).for_each(|(sum, addend)| *sum += addend))?;
        }
        Ok(())
    }

    /// The Euclidean norm over all weights.
    pub fn norm(&self) -> f64 {
        let squares = |tensor: &Vec<f32>| tensor.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
        // Tensor by tensor and then in order, so that the sum does not depend on the number of threads.
        self.tensors.par_iter().map(squares).collect::<Vec<_>>().iter().sum::<f64>().sqrt()
    }

    /// The gradients, tensor by tensor in the order of [`Weights::named`].
    pub fn tensors(&self) -> &[Vec<f32>] {
        &self.tensors
    }
}

impl AdamW {
    /// An optimizer of these weights that has made no step.
    ///
    /// # Errors
    /// If a tensor is not contiguous f32 on the CPU.
    pub fn new(config: AdamWConfig, weights: &Weights) -> Result<Self> {
        let parameter = |(_, tensor): (String, &Tensor)| {
            let values = read([tensor], |[values]| values.to_vec())?;
            let zeros = vec![0.0; values.len()];
            Ok(Parameter { values, first: zeros.clone(), second: zeros, decays: tensor.rank() > 1 })
        };
        let parameters = weights.named().into_iter().map(parameter).collect::<Result<_>>()?;
        Ok(Self { config, parameters, steps: 0 })
    }

    /// Changes the weights by one step, and returns the gradient's norm before clipping.
    pub fn step(&mut self, gradient: &Gradient, learning_rate: f64) -> f64 {
        let AdamWConfig { beta1, beta2, epsilon, weight_decay, clip } = self.config;
        self.steps += 1;
        let norm = gradient.norm();
        let clipped = (clip / (norm + 1e-6)).min(1.0) as f32;
        let step_size = (learning_rate / (1.0 - beta1.powi(self.steps))) as f32;
        let second_correction = (1.0 - beta2.powi(self.steps)).sqrt() as f32;
        let (towards_first, keep_second) = ((1.0 - beta1) as f32, beta2 as f32);
        let (towards_second, epsilon) = ((1.0 - beta2) as f32, epsilon as f32);

        self.parameters.par_iter_mut().zip(&gradient.tensors).for_each(|(parameter, gradient)| {
            let Parameter { values, first, second, decays } = parameter;
            let keep = if *decays { (1.0 - learning_rate * weight_decay) as f32 } else { 1.0 };
            let moments = first.iter_mut().zip(second);
            for ((value, (first, second)), gradient) in values.iter_mut().zip(moments).zip(gradient) {
                let gradient = gradient * clipped;
                *first += (gradient - *first) * towards_first;
                *second = *second * keep_second + gradient * gradient * towards_second;
                let root = second.sqrt() / second_correction + epsilon;
                *value = *value * keep - step_size * (*first / root);
            }
        });
        norm
    }

    /// The weights as they are now, for a model of the config that the optimizer was made for.
    ///
    /// # Errors
    /// If the config describes other tensors.
    pub fn weights(&self, config: &ModelConfig) -> Result<Weights> {
        let mut parameters = self.parameters.iter();
        Weights::build(config, |_, shape| {
            let values = parameters.next().map(|parameter| parameter.values.clone()).unwrap_or_default();
            Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
        })
    }
}
