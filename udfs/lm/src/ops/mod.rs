//! What a layer is made of, on the CPU: each operation is a loop over slices, matrix products are candle's kernels in f32
//! and ours in bf16.
//!
//! Tensors are [tokens, width], contiguous and f32. What takes tensors shares the cores; what takes rows is a task of
//! its caller's.

mod attention;
mod bf16;
mod exp;
mod gemm;
mod norm;
mod pool;
mod projection;
mod rotate;
mod swiglu;

use std::ops::Range;

use candle_core::{DType, Device, Error, Storage, Tensor, WithDType};
use rayon::prelude::*;

use super::Result;
use asap_kernels::vectorized::vectorized;
pub use attention::{Attention, Sequence, Softmax, attend, attention};
pub use bf16::Bf16Matrix;
pub use exp::{SumOfExponentials, exp};
pub use gemm::{Cores, Matrix, Update, multiply};
pub use norm::{rms_norm, rms_norm_rows};
pub use pool::Pool;
pub use projection::{Linear, Projection, Weight};
pub use rotate::{Direction, rotate, rotate_rows};
pub use swiglu::{swiglu, swiglu_rows};

/// Rows that one task of a loop over rows takes.
const ROWS_PER_TASK: usize = 64;

/// Reads the values of contiguous tensors of one type on the CPU.
///
/// # Errors
/// If a tensor is none.
pub fn read<T: WithDType, const N: usize, R>(tensors: [&Tensor; N], reader: impl FnOnce([&[T]; N]) -> R) -> Result<R> {
    let guards = tensors.map(Tensor::storage_and_layout);
    let mut slices: [&[T]; N] = [&[]; N];
    for ((storage, layout), slice) in guards.iter().zip(&mut slices) {
        let Storage::Cpu(storage) = &**storage else { return Err(outside()) };
        let (from, to) = layout.contiguous_offsets().ok_or_else(|| Error::msg("expected a contiguous tensor"))?;
        *slice = &storage.as_slice::<T>()?[from..to];
    }
    Ok(reader(slices))
}

/// Reads rows of a table in f32 or bf16, [rows, width], as f32; `widened` holds those that were bf16.
///
/// # Errors
/// If the table is none, or ends before.
pub fn read_rows<R>(
    table: &Tensor,
    rows: Range<usize>,
    widened: &mut Vec<f32>,
    reader: impl FnOnce(&[f32]) -> R,
) -> Result<R> {
    let (count, width) = table.dims2()?;
    if rows.end > count {
        return Err(Error::msg(format!("expected a row below {count}, found {}", rows.end - 1)).into());
    }
    let values = rows.start * width..rows.end * width;
    if table.dtype() == DType::F32 {
        return read([table], |[table]| reader(&table[values]));
    }
    read::<half::bf16, 1, _>([table], |[table]| {
        widened.clear();
        widened.resize(values.len(), 0.0);
        let numbers = &table[values];
        vectorized(
            #[inline(always)]
            || widened.iter_mut().zip(numbers).for_each(|(to, x)| *to = f32::from_bits(u32::from(x.to_bits()) << 16)),
        );
        reader(widened)
    })
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
    multiply(views[0], views[1], 1.0, &mut values, Update::Replace, Cores::All);
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
    if let Some(bias) = &linear.bias {
        read([bias], |[bias]| for_rows(&mut values, bias.len(), |_, rows| add_to_rows(rows, bias)))?;
    }
    matrix(values, linear.weight.dim(0)?)
}

/// Adds `addends` to each row.
pub fn add_to_rows(rows: &mut [f32], addends: &[f32]) {
    for row in rows.chunks_exact_mut(addends.len()) {
        row.iter_mut().zip(addends).for_each(|(x, addend)| *x += addend);
    }
}

/// Calls `change` with some rows and the index of their first, on all cores.
fn for_rows(values: &mut [f32], width: usize, change: impl Fn(usize, &mut [f32]) + Sync) {
    let tasks = values.par_chunks_mut(ROWS_PER_TASK * width).enumerate();
    tasks.for_each(|(task, rows)| change(task * ROWS_PER_TASK, rows));
}

/// Runs tasks on all cores, or where there is only one, here.
///
/// # Errors
/// What a task fails with.
pub fn on_all_cores<T: Send>(tasks: Vec<T>, task: impl Fn(T) -> Result<()> + Send + Sync) -> Result<()> {
    match tasks.len() {
        0 | 1 => tasks.into_iter().try_for_each(task),
        // One at a time: tasks are large, and the last ones must not wait in one core's hands.
        _ => tasks.into_par_iter().with_max_len(1).try_for_each(task),
    }
}
