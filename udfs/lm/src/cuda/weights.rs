//! A model's weights in GPU memory.

use candle_core::{DType, Tensor};
use cudarc::driver::CudaSlice;
use half::f16;

use super::Weights;
use super::gpu::Gpu;
use super::types::{GpuLayer, GpuMatrix};
use crate::model::weights::LayerWeights;
use crate::ops::{self, Linear, Weight, read};
use crate::{LmError, Result};

#[derive(Debug, Clone)]
pub struct F16Tensor(Tensor);

impl Weight for F16Tensor {
    fn dtype(_: DType) -> DType {
        DType::F16
    }

    fn new(weight: Tensor) -> ops::Result<Self> {
        Ok(Self(weight))
    }
}

#[derive(Debug)]
pub(crate) struct GpuWeights {
    pub embed: GpuMatrix,
    pub layers: Vec<GpuLayer>,
    pub norm: CudaSlice<f32>,
    lm_head: Option<GpuMatrix>,
}

impl GpuWeights {
    pub(crate) fn take(gpu: &Gpu, weights: Weights) -> Result<Self> {
        let layers = weights.layers.into_iter().map(|layer| GpuLayer::take(gpu, layer)).collect::<Result<_>>()?;
        Ok(Self {
            embed: matrix(gpu, &[&weights.embed])?,
            layers,
            norm: vector(gpu, &weights.norm)?,
            lm_head: weights.lm_head.map(|weight| matrix(gpu, &[&weight])).transpose()?,
        })
    }

    pub(crate) fn output(&self) -> &GpuMatrix {
        self.lm_head.as_ref().unwrap_or(&self.embed)
    }
}

impl GpuLayer {
    fn take(gpu: &Gpu, layer: LayerWeights<F16Tensor>) -> Result<Self> {
        let optional = |weight: &Option<Tensor>| weight.as_ref().map(|weight| vector(gpu, weight)).transpose();
        Ok(Self {
            input_norm: vector(gpu, &layer.input_norm)?,
            joined: matrix(gpu, &[&layer.q.weight.0, &layer.k.weight.0, &layer.v.weight.0])?,
            joined_bias: bias(gpu, &[&layer.q, &layer.k, &layer.v])?,
            query_norm: optional(&layer.q_norm)?,
            key_norm: optional(&layer.k_norm)?,
            o: matrix(gpu, &[&layer.o.weight.0])?,
            o_bias: optional(&layer.o.bias)?,
            post_norm: vector(gpu, &layer.post_norm)?,
            gate_and_up: matrix(gpu, &[&layer.gate.0, &layer.up.0])?,
            down: matrix(gpu, &[&layer.down.0])?,
        })
    }
}

fn matrix(gpu: &Gpu, weights: &[&Tensor]) -> Result<GpuMatrix> {
    let inputs = weights[0].dim(1)?;
    let outputs = weights.iter().map(|weight| weight.dims()[0]).sum();
    let mut numbers = gpu.room(outputs * inputs)?;
    let mut place = 0;
    for weight in weights {
        read::<f16, 1, _>([weight], |[values]| match values.iter().all(|x| x.is_finite()) {
            true => gpu.copy(values, &mut numbers.slice_mut(place..)),
            false => Err(LmError::Gpu("the model has weights beyond 65,504, the maximum of f16".to_string())),
        })??;
        place += weight.elem_count();
    }
    Ok(GpuMatrix { numbers, outputs, inputs })
}

fn vector(gpu: &Gpu, weight: &Tensor) -> Result<CudaSlice<f32>> {
    read::<f32, 1, _>([weight], |[values]| gpu.copied(values))?
}

fn bias(gpu: &Gpu, linears: &[&Linear<F16Tensor>]) -> Result<CudaSlice<f32>> {
    let mut values = Vec::new();
    for linear in linears {
        match &linear.bias {
            Some(bias) => read::<f32, 1, _>([bias], |[bias]| values.extend_from_slice(bias))?,
            None => values.resize(values.len() + linear.weight.0.dim(0)?, 0.0),
        }
    }
    gpu.copied(&values)
}
