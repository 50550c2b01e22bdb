//! Data in GPU memory.

use cudarc::driver::{CudaSlice, DeviceRepr};
use half::f16;

#[derive(Debug)]
pub(crate) struct GpuMatrix {
    pub numbers: CudaSlice<f16>,
    pub outputs: usize,
    pub inputs: usize,
}

/// The weights of a layer. Weights that multiply the same rows form one matrix.
#[derive(Debug)]
pub(crate) struct GpuLayer {
    pub input_norm: CudaSlice<f32>,
    pub joined: GpuMatrix,
    pub joined_bias: CudaSlice<f32>,
    pub query_norm: Option<CudaSlice<f32>>,
    pub key_norm: Option<CudaSlice<f32>>,
    pub o: GpuMatrix,
    pub o_bias: Option<CudaSlice<f32>>,
    pub post_norm: CudaSlice<f32>,
    pub gate_and_up: GpuMatrix,
    pub down: GpuMatrix,
}

/// The sums of a row in sum_exponentials of kernels.cu.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub(crate) struct Sums {
    pub max: f32,
    pub sum: f32,
    pub weighted: f32,
    /// Logit of the row's target.
    pub own: f32,
    /// The same logit as found before all others, to count those above it.
    pub aim: f32,
    pub above: u32,
}

// SAFETY: six 32-bit numbers, with the layout of C.
unsafe impl DeviceRepr for Sums {}
