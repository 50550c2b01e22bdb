//! What a layer is made of, on CPU tensors in f32: each operation is a loop over slices, matrix products are candle's
//! kernels.
//!
//! Tensors are [tokens, width] and contiguous. Loops over tokens share the cores.

mod attention;
mod exp;
mod gemm;
mod norm;
mod rotate;
mod swiglu;

use candle_core::{Device, Error, Storage, Tensor};
use rayon::prelude::*;

use super::Result;
use super::weights::Linear;
pub use attention::{Attention, Heads, attention, attention_of_next};
pub use exp::{exp, log_sum_exp};
pub use gemm::{Cores, Matrix, Write, multiply};
pub use norm::rms_norm;
pub use rotate::{Direction, rotate};
pub use swiglu::swiglu;

/// Tokens that one task of a loop over tokens takes.
const TOKENS_PER_TASK: usize = 64;

/// Reads the values of contiguous f32 tensors on the CPU.
///
/// # Errors
/// If a tensor is none.
pub fn read<const N: usize, R>(tensors: [&Tensor; N], reader: impl FnOnce([&[f32]; N]) -> R) -> Result<R> {
    let guards = tensors.map(Tensor::storage_and_layout);
    let mut slices: [&[f32]; N] = [&[]; N];
    for ((storage, layout), slice) in guards.iter().zip(&mut slices) {
        let Storage::Cpu(storage) = &**storage else { return Err(outside()) };
        let (from, to) = layout.contiguous_offsets().ok_or_else(|| Error::msg("expected a contiguous tensor"))?;
        *slice = &storage.as_slice::<f32>()?[from..to];
    }
    Ok(reader(slices))
}

/// The product of two f32 matrices on the CPU, [m, k] and [k, n], of any strides: m × n values, row by row.
pub fn product(a: &Tensor, b: &Tensor) -> Result<Vec<f32>> {
    let ((m, k), (rows, n)) = (a.dims2()?, b.dims2()?);
    if k != rows {
        return Err(Error::msg(format!("cannot multiply [{m}, {k}] by [{rows}, {n}]")).into());
    }
    let guards = [a, b].map(Tensor::storage_and_layout);
    let mut views = Vec::with_capacity(2);
    for (storage, layout) in &guards {
        let Storage::Cpu(storage) = &**storage else { return Err(outside()) };
        let values = &storage.as_slice::<f32>()?[layout.start_offset()..];
        let strides = layout.stride();
        views.push(Matrix::new(values, layout.shape().dims2()?, (strides[0], strides[1])));
    }
    let mut values = vec![0.0; m * n];
    multiply(views[0], views[1], 1.0, &mut values, Write::Replace, Cores::All);
    Ok(values)
}

fn outside() -> super::LmError {
    Error::msg("expected a tensor in the CPU's memory").into()
}

/// Values row by row as a tensor of this width.
pub fn matrix(values: Vec<f32>, width: usize) -> Result<Tensor> {
    let rows = values.len() / width;
    Ok(Tensor::from_vec(values, (rows, width), &Device::Cpu)?)
}

/// x · Wᵀ + b: [tokens, input] to [tokens, output].
pub fn linear(x: &Tensor, linear: &Linear) -> Result<Tensor> {
    let mut values = product(x, &linear.weight.t()?)?;
    let width = linear.weight.dim(0)?;
    if let Some(bias) = &linear.bias {
        read([bias], |[bias]| {
            for_tokens(&mut values, width, |_, row| row.iter_mut().zip(bias).for_each(|(y, b)| *y += b));
        })?;
    }
    matrix(values, width)
}

/// Calls `change` with the index and the values of each row, on all cores.
fn for_tokens(values: &mut [f32], width: usize, change: impl Fn(usize, &mut [f32]) + Sync) {
    values.par_chunks_mut(TOKENS_PER_TASK * width).enumerate().for_each(|(task, rows)| {
        for (i, row) in rows.chunks_mut(width).enumerate() {
            change(task * TOKENS_PER_TASK + i, row);
        }
    });
}
