//! Products with weights that are read where they lie. Where few rows are multiplied, as when texts go on by a token each,
//! reading a weight takes longest: it is read once for all rows, in the type that its file has, and nothing is packed.
#![allow(unsafe_code, reason = "vectors of 16 numbers are only reached by intrinsics that take pointers")]

use candle_core::{DType, Tensor};
use half::bf16;
use rayon::prelude::*;

use super::super::Result;
use super::{Cores, Projection, Update, Weight, read, widen};
use asap_kernels::vectorized::vectorized;

/// Outputs that a tile computes.
const OUTPUTS: usize = 4;
/// Outputs whose weights stay in the second cache while rows go by.
const GROUP: usize = 32;
/// Rows that a tile computes at most.
const ROWS: usize = 6;
/// Inputs that are multiplied at once: those of four outputs are 16 KiB, which stay in the first cache for all rows.
const INPUTS: usize = 1024;
/// Rows that are multiplied at once: so many inputs of theirs are 384 KiB, which stay in the second cache for all outputs.
const CACHED_ROWS: usize = 96;
/// Outputs of a task.
const TASK: usize = 256;

/// A weight, [outputs, inputs], as its file holds it: in bf16 or f32.
#[derive(Debug, Clone)]
pub struct StoredMatrix(Tensor);

impl Weight for StoredMatrix {
    /// Every number of f16 is one of f32.
    fn dtype(stored: DType) -> DType {
        if stored == DType::BF16 { DType::BF16 } else { DType::F32 }
    }

    fn new(weight: Tensor) -> Result<Self> {
        Ok(Self(weight))
    }
}

impl Projection for StoredMatrix {
    fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
        multiply_stored(&self.0, x, to, write, cores)
    }
}

/// x · Wᵀ for rows of inputs by a weight, [outputs, inputs], in bf16 or f32, summed up in f32: written to `to`, or added to
/// what is there. The result of a row is the same to the last bit whatever rows are beside it.
///
/// # Errors
/// If the weight is none.
///
/// # Panics
/// If `x` and `to` do not have the same number of whole rows.
pub fn multiply_stored(weight: &Tensor, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
    let (outputs, inputs) = weight.dims2()?;
    let rows = x.len() / inputs;
    assert_eq!((x.len(), to.len()), (rows * inputs, rows * outputs), "rows of a product");
    match weight.dtype() {
        DType::BF16 => read::<bf16, 1, _>([weight], |[weight]| by_tasks(weight, x, inputs, to, write, cores)),
        _ => read::<f32, 1, _>([weight], |[weight]| by_tasks(weight, x, inputs, to, write, cores)),
    }
}

/// Numbers of a weight.
trait Number: Copy + Sync {
    /// Numbers as f32, in `room` where they are not.
    fn widened<'a>(numbers: &'a [Self], room: &'a mut [f32]) -> &'a [f32];
}

impl Number for f32 {
    #[inline(always)]
    fn widened<'a>(numbers: &'a [Self], _: &'a mut [f32]) -> &'a [f32] {
        numbers
    }
}

impl Number for bf16 {
    #[inline(always)]
    fn widened<'a>(numbers: &'a [Self], room: &'a mut [f32]) -> &'a [f32] {
        let room = &mut room[..numbers.len()];
        widen(numbers, room);
        room
    }
}

fn by_tasks<N: Number>(weight: &[N], x: &[f32], inputs: usize, to: &mut [f32], write: Update, cores: Cores) {
    let outputs = weight.len() / inputs;
    for (x, to) in x.chunks(CACHED_ROWS * inputs).zip(to.chunks_mut(CACHED_ROWS * outputs)) {
        // Each task has its outputs of every row.
        let mut parts: Vec<Vec<&mut [f32]>> = (0..outputs.div_ceil(TASK)).map(|_| Vec::new()).collect();
        for row in to.chunks_mut(outputs) {
            parts.iter_mut().zip(row.chunks_mut(TASK)).for_each(|(part, outputs)| part.push(outputs));
        }
        let tasks = weight.chunks(TASK * inputs).zip(parts);
        let multiply = |(weight, to): (&[N], Vec<&mut [f32]>)| {
            Task { weight, x, inputs, to, write }.multiply();
        };
        match cores {
            Cores::One => tasks.for_each(multiply),
            Cores::All => tasks.collect::<Vec<_>>().into_par_iter().with_max_len(1).for_each(multiply),
        }
    }
}

/// Some outputs of some rows.
struct Task<'a, N> {
    weight: &'a [N],
    x: &'a [f32],
    inputs: usize,
    /// The outputs, row by row.
    to: Vec<&'a mut [f32]>,
    write: Update,
}

impl<N: Number> Task<'_, N> {
    fn multiply(mut self) {
        let mut room = vec![0.0; GROUP * INPUTS];
        for first in (0..self.inputs).step_by(INPUTS) {
            let part = first..self.inputs.min(first + INPUTS);
            for (group, weights) in self.weight.chunks(GROUP * self.inputs).enumerate() {
                let weights = weights.chunks(self.inputs).zip(room.chunks_mut(INPUTS));
                let weights: Vec<&[f32]> =
                    weights.map(|(weights, room)| N::widened(&weights[part.clone()], room)).collect();
                self.group(&weights, group * GROUP, first);
            }
            self.write = Update::Add;
        }
    }

    /// The outputs from `output` on of all rows, over the inputs from `first` on: a few rows at a time stay in the first cache
    /// for all weights, and these in the second for all rows.
    fn group(&mut self, weights: &[&[f32]], output: usize, first: usize) {
        let (rows, width) = (self.to.len(), weights[0].len());
        // Tiles of one size, rather than a small one at the end.
        let tiles = rows.div_ceil(ROWS);
        let mut from = 0;
        for tile in 0..tiles {
            let until = rows * (tile + 1) / tiles;
            let x = |row: usize| &self.x[(from + row) * self.inputs + first..][..width];
            let (to, write) = (&mut self.to[from..until], self.write);
            match until - from {
                1 => tile_of(weights, [x(0)], to, output, write),
                2 => tile_of(weights, [0, 1].map(x), to, output, write),
                3 => tile_of(weights, [0, 1, 2].map(x), to, output, write),
                4 => tile_of(weights, [0, 1, 2, 3].map(x), to, output, write),
                5 => tile_of(weights, [0, 1, 2, 3, 4].map(x), to, output, write),
                _ => tile_of(weights, [0, 1, 2, 3, 4, 5].map(x), to, output, write),
            }
            from = until;
        }
    }
}

fn tile_of<const R: usize>(weights: &[&[f32]], rows: [&[f32]; R], to: &mut [&mut [f32]], output: usize, write: Update) {
    let (fours, rest) = weights.as_chunks::<OUTPUTS>();
    for (four, weights) in fours.iter().enumerate() {
        add(sums(*weights, rows), to, output + four * OUTPUTS, write);
    }
    for (place, weights) in rest.iter().enumerate() {
        add(sums([*weights], rows), to, output + fours.len() * OUTPUTS + place, write);
    }
}

fn add<const W: usize, const R: usize>(sums: [[f32; R]; W], to: &mut [&mut [f32]], output: usize, write: Update) {
    for (place, sums) in sums.into_iter().enumerate() {
        for (to, sum) in to.iter_mut().zip(sums) {
            let to = &mut to[output + place];
            *to = if write == Update::Add { *to + sum } else { sum };
        }
    }
}

/// The products of weights and rows, all of one length.
fn sums<const W: usize, const R: usize>(weights: [&[f32]; W], rows: [&[f32]; R]) -> [[f32; R]; W] {
    let count = rows[0].len();
    assert!(rows.iter().chain(&weights).all(|numbers| numbers.len() == count), "numbers of a product");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU was asked, and all have as many numbers.
        return unsafe { x86::sums(weights.map(<[f32]>::as_ptr), rows.map(<[f32]>::as_ptr), count) };
    }
    weights.map(|weights| rows.map(|row| sum(weights, row)))
}

fn sum(a: &[f32], b: &[f32]) -> f32 {
    vectorized(
        #[inline(always)]
        || {
            let mut sums = [0.0; 16];
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
            for (a, b) in a.iter().zip(b) {
                sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
            }
            let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
            sums.iter().sum::<f32>() + rest
        },
    )
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_maskz_loadu_ps, _mm512_reduce_add_ps, _mm512_setzero_ps,
    };

    /// All sums stay in registers, with six rows of four outputs 24 of 32; what iterators lend would not.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, and at each place are `count` numbers.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn sums<const W: usize, const R: usize>(
        weights: [*const f32; W],
        rows: [*const f32; R],
        count: usize,
    ) -> [[f32; R]; W] {
        let mut sums = [[_mm512_setzero_ps(); R]; W];
        for place in (0..count - count % 16).step_by(16) {
            for o in 0..W {
                // SAFETY: the caller promises these numbers.
                let weight = unsafe { _mm512_loadu_ps(weights[o].add(place)) };
                for r in 0..R {
                    // SAFETY: as above.
                    sums[o][r] = unsafe { _mm512_fmadd_ps(weight, _mm512_loadu_ps(rows[r].add(place)), sums[o][r]) };
                }
            }
        }
        let (place, mask) = (count - count % 16, (1u16 << (count % 16)) - 1);
        let mut found = [[0.0; R]; W];
        for o in 0..W {
            for r in 0..R {
                // SAFETY: the mask leaves only numbers that are there.
                let (weight, x) = unsafe {
                    (
                        _mm512_maskz_loadu_ps(mask, weights[o].wrapping_add(place)),
                        _mm512_maskz_loadu_ps(mask, rows[r].wrapping_add(place)),
                    )
                };
                found[o][r] = _mm512_reduce_add_ps(_mm512_fmadd_ps(weight, x, sums[o][r]));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;
    use proptest::prelude::*;

    use super::*;

    /// Numbers that bf16 holds, whose products and sums are whole.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 37 + seed) % 23) as f32 - 11.0).collect()
    }

    proptest! {
        #[test]
        fn products_agree_with_the_definition(
            rows in prop_oneof![1_usize..14, Just(97)],
            outputs in prop_oneof![1_usize..10, Just(258)],
            inputs in prop_oneof![1_usize..70, Just(1030)],
            seed in 0_usize..23,
        ) {
            let (x, weight) = (numbers(rows * inputs, seed), numbers(outputs * inputs, seed + 5));
            let tensor = Tensor::from_slice(&weight, (outputs, inputs), &Device::Cpu).unwrap();
            for tensor in [tensor.to_dtype(DType::BF16).unwrap(), tensor] {
                let mut to = vec![1.0; rows * outputs];
                multiply_stored(&tensor, &x, &mut to, Update::Add, Cores::All).unwrap();
                let mut replaced = vec![1.0; rows * outputs];
                multiply_stored(&tensor, &x, &mut replaced, Update::Replace, Cores::One).unwrap();
                for (place, (to, replaced)) in to.iter().zip(replaced).enumerate() {
                    let (row, output) = (place / outputs, place % outputs);
                    let exact: f32 =
                        (0..inputs).map(|i| x[row * inputs + i] * weight[output * inputs + i]).sum();
                    prop_assert_eq!((*to, replaced), (exact + 1.0, exact));
                }
            }
        }
    }

    #[test]
    fn what_is_beside_a_row_changes_no_bit_of_it() {
        let (rows, outputs, inputs) = (100, 9, 1100);
        let wave = |count: usize, pace: f32| (0..count).map(|i| (i as f32 * pace).sin()).collect::<Vec<f32>>();
        let (x, weight) = (wave(rows * inputs, 0.37), wave(outputs * inputs, 0.11));
        let weight = Tensor::from_vec(weight, (outputs, inputs), &Device::Cpu).unwrap();
        let mut together = vec![0.0; rows * outputs];
        multiply_stored(&weight, &x, &mut together, Update::Replace, Cores::All).unwrap();
        for (x, expected) in x.chunks(inputs).zip(together.chunks(outputs)) {
            let mut alone = vec![0.0; outputs];
            multiply_stored(&weight, x, &mut alone, Update::Replace, Cores::One).unwrap();
            assert_eq!(alone, expected);
        }
    }
}
