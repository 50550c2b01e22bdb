//! CPU operations of language model layers, and their gradients. Each operation is a loop over slices; matrix products
//! are tiles with sums in registers. A debug build optimizes this crate too.
//!
//! Rows are [tokens, width], f32, without gaps. Operations on rows run on the caller's thread.
//!
//! | module | contains |
//! |---|---|
//! | `matrix`, `gemm`, `tiles`, `panels` | matrix products in f32 |
//! | `bf16`, `f32_matrix`, `stored`, `projection` | products with weights, by data type and memory layout |
//! | `arithmetic`, `amx`, `dots`, `lines` | instructions for bf16 products, and their memory layout |
//! | `attention`, `attend_backward` | attention, and causal attention backward |
//! | `norm`, `rotate`, `activations`, `exp`, `sums` | RMSNorm, layer norm, RoPE and activations |
//! | `cores` | the threads of all cores, also in a forked process |
//! | `pool` | reusable scratch memory of tasks |
//! | [`gradients`], [`cross_entropy`], [`adamw`] | operations of training only |

mod activations;
pub mod adamw;
#[cfg(target_arch = "x86_64")]
mod amx;
mod arithmetic;
mod attend_backward;
mod attention;
mod bf16;
mod cores;
pub mod cross_entropy;
#[cfg(target_arch = "x86_64")]
mod dots;
mod exp;
mod f32_matrix;
mod gemm;
pub mod gradients;
mod lines;
mod matrix;
mod norm;
mod panels;
mod pool;
mod projection;
mod rotate;
mod stored;
mod sums;
#[cfg(test)]
mod tests;
mod tiles;

use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use candle_core::{DType, Error, Storage, Tensor, WithDType};
use rayon::prelude::*;

pub use activations::{gelu_rows, swiglu_rows, swiglu_to};
pub use arithmetic::Arithmetic;
use asap_kernels::vectorized;
pub use attend_backward::{BackwardScratch, attend_backward};
pub use attention::{Heads, Sees, Sequence, Softmax, attend};
pub use bf16::Bf16Matrix;
pub use cores::{on_cores, spawn_on_cores};
pub use exp::{SumOfExponentials, count_above};
pub(crate) use exp::{exp, max};
pub use f32_matrix::F32Matrix;
pub use gemm::{Cores, multiply};
pub use matrix::{Matrix, Update};
pub use norm::{layer_norm_rows, rms_norm_rows, rms_norm_to};
pub use pool::Pool;
pub use projection::{Linear, Projection, Weight};
pub use rotate::{Direction, RopeTable, rotate_rows};
pub use stored::{StoredMatrix, multiply_stored};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Passes the values of contiguous CPU tensors of one type to `reader`.
pub fn read<T: WithDType, const N: usize, R>(tensors: [&Tensor; N], reader: impl FnOnce([&[T]; N]) -> R) -> Result<R> {
    let guards = tensors.map(Tensor::storage_and_layout);
    let mut slices: [&[T]; N] = [&[]; N];
    for ((storage, layout), slice) in guards.iter().zip(&mut slices) {
        let Storage::Cpu(storage) = &**storage else {
            return Err(Error::msg("expected a tensor in the CPU's memory"));
        };
        let (from, to) = layout.contiguous_offsets().ok_or_else(|| Error::msg("expected a contiguous tensor"))?;
        *slice = &storage.as_slice::<T>()?[from..to];
    }
    Ok(reader(slices))
}

/// Passes rows of an f32 or bf16 table, [rows, width], to `reader` as f32. `widened` is the buffer for bf16 rows.
pub fn read_rows<R>(
    table: &Tensor,
    rows: Range<usize>,
    widened: &mut Vec<f32>,
    reader: impl FnOnce(&[f32]) -> R,
) -> Result<R> {
    let (count, width) = table.dims2()?;
    if rows.end > count {
        return Err(Error::msg(format!("expected a row index below {count}, found {}", rows.end - 1)));
    }
    let values = rows.start * width..rows.end * width;
    if table.dtype() == DType::F32 {
        return read([table], |[table]| reader(&table[values]));
    }
    read::<half::bf16, 1, _>([table], |[table]| {
        let (numbers, widened) = (&table[values], at_least(widened, rows.len() * width));
        vectorized!(widen(numbers, widened));
        reader(widened)
    })
}

#[inline(always)]
fn widen(numbers: &[half::bf16], to: &mut [f32]) {
    to.iter_mut().zip(numbers).for_each(|(to, x)| *to = f32::from_bits(u32::from(x.to_bits()) << 16));
}

/// The first `length` numbers of an array, with arbitrary contents; grows a shorter array.
pub fn at_least(array: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if array.len() < length {
        array.resize(length, 0.0);
    }
    &mut array[..length]
}

/// Runs tasks on all cores, or a single one on this thread. Results are in the order of the tasks, or the first error.
pub fn on_all_cores<T: Send, R: Send + Sync, E: Send + Sync>(
    tasks: Vec<T>,
    task: impl Fn(T) -> Result<R, E> + Send + Sync,
) -> Result<Vec<R>, E> {
    if tasks.len() < 2 {
        return tasks.into_iter().map(task).collect();
    }
    let results: Vec<OnceLock<_>> = tasks.iter().map(|_| OnceLock::new()).collect();
    let tasks: Vec<_> = tasks.into_iter().map(|own| Mutex::new(Some(own))).collect();
    each_on_all_cores(results.len(), &|place| {
        if let Some(own) = tasks[place].lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(results[place].set(task(own)));
        }
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Compiled once for all kinds of tasks: rayon's part takes longer to compile than most tasks.
fn each_on_all_cores(tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    // One task at a time: tasks are large, and the last ones must not queue on one core.
    (0..tasks).into_par_iter().with_max_len(1).for_each(task);
}

/// Splits arrays, each with its width, into blocks of `block` rows, and runs a task per block on all cores. The task
/// receives the range of its rows and its part of each array; the part of an empty array is empty.
pub fn on_blocks<const N: usize, R: Send + Sync, E: Send + Sync>(
    block: usize,
    mut arrays: [(&mut [f32], usize); N],
    task: impl Fn(Range<usize>, [&mut [f32]; N]) -> Result<R, E> + Send + Sync,
) -> Result<Vec<R>, E> {
    let rows = arrays.iter().map(|(array, width)| array.len() / width).max().unwrap_or(0);
    let mut blocks = Vec::with_capacity(rows.div_ceil(block));
    for first in (0..rows).step_by(block) {
        let own = first..rows.min(first + block);
        let parts = arrays.each_mut().map(|(array, width)| {
            let end = array.len().min(own.len() * *width);
            array.split_off_mut(..end).unwrap_or_default()
        });
        blocks.push((own, parts));
    }
    on_all_cores(blocks, |(rows, parts)| task(rows, parts))
}
