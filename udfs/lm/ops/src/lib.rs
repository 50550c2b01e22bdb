//! What a layer is made of, and its gradient, on the CPU: each operation is a loop over slices, matrix products are tiles
//! whose sums stay in registers. These are the loops that a debug build
//! optimises too.
//!
//! Rows are [tokens, width], f32, without gaps. What takes rows is a task of its caller's.
//!
//! | module | holds |
//! |---|---|
//! | `matrix`, `gemm`, `tiles`, `panels` | products in f32 |
//! | `bf16`, `f32_matrix`, `stored`, `projection` | products with weights, by the type and the order that they are kept in |
//! | `arithmetic`, `amx`, `dots`, `lines` | which instructions multiply bf16, and how they find it in memory |
//! | `attention`, `attend_all`, `attend_backward` | causal attention, an encoder's, and the gradient of the first |
//! | `norm`, `rotate`, `swiglu`, `gelu`, `exp` | what else a layer is made of |
//! | `pool` | what tasks need between their products, handed on |
//! | [`gradients`], [`cross_entropy`], [`adamw`] | what training adds |

pub mod adamw;
#[cfg(target_arch = "x86_64")]
mod amx;
mod arithmetic;
mod attend_all;
mod attend_backward;
mod attention;
mod bf16;
pub mod cross_entropy;
#[cfg(target_arch = "x86_64")]
mod dots;
mod exp;
mod f32_matrix;
mod gelu;
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
mod swiglu;
mod tiles;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Error, Storage, Tensor, WithDType};
use rayon::prelude::*;

use asap_kernels::vectorized::vectorized;
pub use attend_all::{Scores, attend_all};
pub use attend_backward::{BackwardScratch, Gathered, attend_backward};
pub use attention::{Heads, Sequence, Softmax, attend};
pub use bf16::Bf16Matrix;
pub use exp::SumOfExponentials;
pub(crate) use exp::{exp, max};
pub use f32_matrix::F32Matrix;
pub use gelu::gelu_rows;
pub use gemm::{Cores, multiply};
pub use matrix::{Matrix, Update};
pub use norm::{layer_norm_rows, rms_norm_rows, rms_norm_to};
pub use pool::Pool;
pub use projection::{Linear, Projection, Weight};
pub use rotate::{Direction, RopeTable, rotate_rows};
pub use stored::{StoredMatrix, multiply_stored};
pub use swiglu::{swiglu_rows, swiglu_to};

/// A result; what fails by itself here is the tensors library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

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
        return Err(Error::msg(format!("expected a row below {count}, found {}", rows.end - 1)));
    }
    let values = rows.start * width..rows.end * width;
    if table.dtype() == DType::F32 {
        return read([table], |[table]| reader(&table[values]));
    }
    read::<half::bf16, 1, _>([table], |[table]| reader(widen_rows(&table[values], widened)))
}

fn widen_rows<'a>(numbers: &[half::bf16], room: &'a mut Vec<f32>) -> &'a [f32] {
    let widened = at_least(room, numbers.len());
    vectorized(
        #[inline(always)]
        || widen(numbers, widened),
    );
    widened
}

#[inline(always)]
fn widen(numbers: &[half::bf16], to: &mut [f32]) {
    to.iter_mut().zip(numbers).for_each(|(to, x)| *to = f32::from_bits(u32::from(x.to_bits()) << 16));
}

fn outside() -> Error {
    Error::msg("expected a tensor in the CPU's memory")
}

/// The first `length` numbers of an array, whatever they are: it grows where it is shorter.
pub fn at_least(array: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if array.len() < length {
        array.resize(length, 0.0);
    }
    &mut array[..length]
}

/// Values row by row as a tensor of this width.
///
/// # Errors
/// If their number is no multiple of it.
pub fn matrix(values: Vec<f32>, width: usize) -> Result<Tensor> {
    let rows = values.len() / width;
    Tensor::from_vec(values, (rows, width), &Device::Cpu)
}

pub(crate) fn add_to_rows(rows: &mut [f32], addends: &[f32]) {
    for row in rows.chunks_exact_mut(addends.len()) {
        row.iter_mut().zip(addends).for_each(|(x, addend)| *x += addend);
    }
}

/// Runs tasks on all cores, or where there is only one, here. Results are in the order of the tasks.
///
/// # Errors
/// What a task fails with.
pub fn on_all_cores<T: Send, R: Send, E: Send>(
    tasks: Vec<T>,
    task: impl Fn(T) -> Result<R, E> + Send + Sync,
) -> Result<Vec<R>, E> {
    if tasks.len() < 2 {
        return tasks.into_iter().map(task).collect();
    }
    let results = in_places(tasks.iter().map(|_| None));
    let tasks = in_places(tasks.into_iter().map(Some));
    each_on_all_cores(results.len(), &|place| {
        if let Some(own) = hold(&tasks[place]).take() {
            *hold(&results[place]) = Some(task(own));
        }
    });
    results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

fn in_places<T>(values: impl Iterator<Item = Option<T>>) -> Vec<Mutex<Option<T>>> {
    values.map(Mutex::new).collect()
}

fn hold<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiled once for all kinds of tasks: what rayon needs for one takes longer to compile than most tasks themselves.
fn each_on_all_cores(tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    // One at a time: tasks are large, and the last ones must not wait in one core's hands.
    (0..tasks).into_par_iter().with_max_len(1).for_each(task);
}

/// Cuts arrays, each with its width, into blocks of as many rows, and runs a task for each block on all cores: with the
/// place of its rows and its part of each array, nothing of one that is empty.
///
/// # Errors
/// What a task fails with.
pub fn on_blocks<const N: usize, R: Send, E: Send>(
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
