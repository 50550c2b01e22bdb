//! Products with weights that are read in place. With few rows, such as one token per text, reading a weight takes
//! longest. It is therefore read once for all rows, in the type of its file, and never packed. The rows are packed
//! instead: a vector holds one input of sixteen rows, and is multiplied by one weight. Neighboring rows change no bit
//! of a row's result.
#![allow(unsafe_code, reason = "vectors of 16 numbers are only reached by intrinsics that take pointers")]

use std::cell::RefCell;

use candle_core::{DType, Tensor};
use half::bf16;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::matrix::common_rows;
use super::tiles::{L2, ask_for};
#[cfg(target_arch = "x86_64")]
use super::{Bf16Matrix, amx};
use super::{Cores, Projection, Result, Update, Weight, read, widen};
use asap_kernels::vectorized;

const LANES: usize = 16;
/// Most vectors of rows per tile: of 32 registers, eight outputs of three vectors take 24 for sums, which leaves enough
/// for inputs and a weight.
const VECTORS: usize = 3;
/// Rows that share a pass over the weight. The inputs of one pass over this many rows take 384 KiB, which leaves room
/// in the L2 cache for weights.
const CACHED_ROWS: usize = 96;
/// Inputs per pass: their weights and the rows' inputs stay in the L2 cache.
const INPUTS: usize = 1024;
/// Outputs to widen together: 192 KiB of weights, which stay in the L2 cache for all rows.
const GROUP: usize = 48;
/// Outputs per task: a multiple of `GROUP` and of the AMX block.
const TASK: usize = 192;
/// The room for the sums of an output is a multiple of this many rows, since AMX writes whole blocks and vectors whole
/// tiles: what they compute for missing rows needs a place, too.
const SUMS: usize = 32;

thread_local! {
    /// Sums and widened weights of a task; kept, since fresh memory costs more than filling it.
    static ROOM: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// A weight, [outputs, inputs], as stored in its file: bf16 or f32.
#[derive(Debug, Clone)]
pub struct StoredMatrix(Tensor);

impl Weight for StoredMatrix {
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

/// Computes x · Wᵀ for rows of inputs into `to`, with sums in f32, by a bf16 or f32 weight, [outputs, inputs]. `write`
/// adds or replaces. A row's result is identical bit for bit whatever other rows are in the batch. With AMX and a bf16
/// weight, the inputs are rounded to bf16.
///
/// # Panics
/// If `x` and `to` do not have the same number of whole rows.
pub fn multiply_stored(weight: &Tensor, x: &[f32], to: &mut [f32], write: Update, cores: Cores) -> Result<()> {
    let (outputs, inputs) = weight.dims2()?;
    common_rows(x, inputs, to, outputs);
    let parts = x.chunks(CACHED_ROWS * inputs).zip(to.chunks_mut(CACHED_ROWS * outputs));
    match weight.dtype() {
        #[cfg(target_arch = "x86_64")]
        DType::BF16 if amx::takes(inputs) => read::<bf16, 1, _>([weight], |[weight]| {
            parts.for_each(|(x, to)| by_unit(weight, x, inputs, Target { to, outputs, write, cores }));
        }),
        DType::BF16 => read::<bf16, 1, _>([weight], |[weight]| {
            parts.for_each(|(x, to)| by_vectors(weight, x, inputs, Target { to, outputs, write, cores }));
        }),
        _ => read::<f32, 1, _>([weight], |[weight]| {
            parts.for_each(|(x, to)| by_vectors(weight, x, inputs, Target { to, outputs, write, cores }));
        }),
    }
}

struct Target<'a> {
    to: &'a mut [f32],
    outputs: usize,
    write: Update,
    cores: Cores,
}

impl Target<'_> {
    /// Computes the products of a group of outputs per task. `product` receives their weights, a buffer for the sums
    /// and a buffer for widened weights. The sums of an output are contiguous; outputs are `stride` apart.
    fn fill<N: Sync>(self, weight: &[N], stride: usize, product: impl Fn(&[N], &mut [f32], &mut Vec<f32>) + Sync) {
        let Self { to, outputs, write, cores } = self;
        let inputs = weight.len() / outputs;
        let mut parts: Vec<Vec<&mut [f32]>> = (0..outputs.div_ceil(TASK)).map(|_| Vec::new()).collect();
        for row in to.chunks_mut(outputs) {
            parts.iter_mut().zip(row.chunks_mut(TASK)).for_each(|(part, outputs)| part.push(outputs));
        }
        let tasks = weight.chunks(TASK * inputs).zip(parts);
        let multiply = |(weight, mut to): (&[N], Vec<&mut [f32]>)| {
            ROOM.with_borrow_mut(|(sums, room)| {
                sums.resize(TASK * stride, 0.0);
                product(weight, sums, room);
                write_rows(sums, stride, &mut to, write);
            });
        };
        match cores {
            Cores::One => tasks.for_each(multiply),
            Cores::All => tasks.collect::<Vec<_>>().into_par_iter().with_max_len(1).for_each(multiply),
        }
    }
}

/// Transposes sums into rows, a few outputs at a time, whose sums stay in the L1 cache.
fn write_rows(sums: &[f32], stride: usize, to: &mut [&mut [f32]], write: Update) {
    let outputs = to[0].len();
    for first in (0..outputs).step_by(LANES) {
        let own = first..outputs.min(first + LANES);
        for (row, to) in to.iter_mut().enumerate() {
            for (output, to) in own.clone().zip(&mut to[own.clone()]) {
                let sum = sums[output * stride + row];
                *to = if write == Update::Add { *to + sum } else { sum };
            }
        }
    }
}

/// Multiplies with AMX. The roles are swapped: the weight takes the place of the rows, in its stored layout. The unit
/// reads its left side row by row, as files store weights; only the right side must be packed, and rows are few.
#[cfg(target_arch = "x86_64")]
fn by_unit(weight: &[bf16], x: &[f32], inputs: usize, target: Target) {
    use amx::BLOCK;
    let rows = x.len() / inputs;
    let stride = rows.next_multiple_of(SUMS);
    let x = Bf16Matrix::round(x, inputs);
    target.fill(weight, stride, |weight, sums, _| {
        let unit = amx::Unit::set_up();
        for (weight, sums) in weight.chunks(BLOCK * inputs).zip(sums.chunks_mut(BLOCK * stride)) {
            let mut padded = Vec::new();
            let weight = if weight.len() == BLOCK * inputs {
                weight
            } else {
                padded.extend_from_slice(weight);
                padded.resize(BLOCK * inputs, bf16::ZERO);
                &padded
            };
            for first in (0..rows).step_by(BLOCK) {
                unit.multiply((weight, inputs), x.block(first), (&mut sums[first..], stride), Update::Replace);
            }
        }
    });
}

trait Number: Copy + Sync {
    /// The first `count` numbers of rows, `stride` apart, as f32 (in `room` if widened), and the new stride.
    fn widened<'a>(rows: &'a [Self], stride: usize, count: usize, room: &'a mut Vec<f32>) -> (&'a [f32], usize);
}

impl Number for f32 {
    fn widened<'a>(rows: &'a [Self], stride: usize, _: usize, _: &'a mut Vec<f32>) -> (&'a [f32], usize) {
        (rows, stride)
    }
}

impl Number for bf16 {
    fn widened<'a>(rows: &'a [Self], stride: usize, count: usize, room: &'a mut Vec<f32>) -> (&'a [f32], usize) {
        room.resize(GROUP * INPUTS, 0.0);
        vectorized!({
            let rows = rows.chunks(stride).zip(room.chunks_exact_mut(count));
            rows.for_each(|(numbers, room)| widen(&numbers[..count], room));
        });
        (room, count)
    }
}

/// Multiplies with vectors: a part of the inputs at a time, and a group of outputs within it, for all rows.
fn by_vectors<N: Number>(weight: &[N], x: &[f32], inputs: usize, target: Target) {
    let rows = x.len() / inputs;
    let stride = rows.next_multiple_of(SUMS);
    let tiles = columns(x, inputs);
    target.fill(weight, stride, |weight, sums, room| {
        for first in (0..inputs).step_by(INPUTS) {
            let count = INPUTS.min(inputs - first);
            let groups = weight.chunks(GROUP * inputs).zip(sums.chunks_mut(GROUP * stride));
            for (weight, sums) in groups {
                let outputs = weight.len() / inputs;
                let (weights, weights_stride) = N::widened(&weight[first..], inputs, count, room);
                for Columns { first_row, vectors, values } in &tiles {
                    let x = &values[first * vectors * LANES..][..count * vectors * LANES];
                    let sums = &mut sums[*first_row..];
                    let group =
                        Group { weights, weights_stride, outputs, x, sums, sums_stride: stride, adds: first > 0 };
                    match vectors {
                        1 => group.multiply::<16, 1>(),
                        2 => group.multiply::<12, 2>(),
                        _ => group.multiply::<8, VECTORS>(),
                    }
                }
            }
        }
    });
}

/// Rows of a tile, `vectors` vectors per input. Missing rows are zeros.
struct Columns {
    first_row: usize,
    vectors: usize,
    values: Vec<f32>,
}

/// Splits rows into tiles of about equal size instead of a small last one.
fn columns(x: &[f32], inputs: usize) -> Vec<Columns> {
    let vectors = (x.len() / inputs).div_ceil(LANES);
    let tiles = vectors.div_ceil(VECTORS);
    let tile = |tile: usize| {
        let own = vectors * tile / tiles..vectors * (tile + 1) / tiles;
        let width = own.len() * LANES;
        let mut values = vec![0.0; inputs * width];
        let rows = x.chunks_exact(inputs).skip(own.start * LANES).take(width);
        for (lane, row) in rows.enumerate() {
            values.iter_mut().skip(lane).step_by(width).zip(row).for_each(|(to, x)| *to = *x);
        }
        Columns { first_row: own.start * LANES, vectors: own.len(), values }
    };
    (0..tiles).map(tile).collect()
}

struct Group<'a> {
    weights: &'a [f32],
    weights_stride: usize,
    outputs: usize,
    x: &'a [f32],
    sums: &'a mut [f32],
    sums_stride: usize,
    adds: bool,
}

impl Group<'_> {
    /// Computes `O` outputs at a time for `V` vectors of rows. The remaining outputs follow four at a time, then one at a time.
    fn multiply<const O: usize, const V: usize>(mut self) {
        let mut output = 0;
        while output < self.outputs {
            match self.outputs - output {
                left if left >= O => output += self.tile::<O, V>(output),
                left if left >= 4 => output += self.tile::<4, V>(output),
                _ => output += self.tile::<1, V>(output),
            }
        }
    }

    fn tile<const O: usize, const V: usize>(&mut self, output: usize) -> usize {
        let count = self.x.len() / (V * LANES);
        let weights = &self.weights[output * self.weights_stride..][..(O - 1) * self.weights_stride + count];
        let sums = &mut self.sums[output * self.sums_stride..][..(O - 1) * self.sums_stride + V * LANES];
        assert!(
            self.x.len() == count * V * LANES && self.sums_stride >= V * LANES,
            "x and sums must hold whole vectors"
        );
        Arch::new().dispatch(Tile::<O, V>(Group { weights, sums, outputs: O, ..*self }));
        O
    }
}

/// A group of `O` outputs, for `V` vectors of rows.
struct Tile<'a, const O: usize, const V: usize>(Group<'a>);

impl<const O: usize, const V: usize> WithSimd for Tile<'_, O, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        if S::F32_LANES == LANES {
            return self.multiply::<S, O, V>(simd, 0, 0);
        }
        // Smaller registers hold the sums of fewer outputs and rows.
        for row in (0..V * LANES).step_by(S::F32_LANES) {
            for output in (0..O - O % 4).step_by(4) {
                self.multiply::<S, 4, 1>(simd, output, row);
            }
            for output in O - O % 4..O {
                self.multiply::<S, 1, 1>(simd, output, row);
            }
        }
    }
}

impl<const O: usize, const V: usize> Tile<'_, O, V> {
    /// Computes `P` outputs for `R` registers of rows. All sums stay in registers: at most 24 of 32.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "sums that iterators lend would not stay in registers")]
    fn multiply<S: Simd, const P: usize, const R: usize>(&mut self, simd: S, output: usize, row: usize) {
        let Group { weights_stride, sums_stride, adds, .. } = self.0;
        let count = self.0.x.len() / (V * LANES);
        let weights = self.0.weights[output * weights_stride..].as_ptr();
        let (x, to) = (self.0.x[row..].as_ptr(), self.0.sums[output * sums_stride + row..].as_mut_ptr());
        let mut sums = [[simd.splat_f32s(0.0); R]; P];
        // SAFETY: `Group::tile` checks that there are `count` weights for each output, as many groups of V vectors in
        // `x`, and V vectors of sums for each output.
        unsafe {
            if adds {
                for p in 0..P {
                    for r in 0..R {
                        sums[p][r] = to.add(p * sums_stride + r * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                    }
                }
            }
            for number in 0..count {
                if number % LANES == 0 {
                    for p in 0..P {
                        // Prefetch the next outputs' weights during these products.
                        ask_for::<L2>(weights.wrapping_add((P + p) * weights_stride + number));
                    }
                }
                let mut vectors = [simd.splat_f32s(0.0); R];
                for r in 0..R {
                    vectors[r] = x.add(number * V * LANES + r * S::F32_LANES).cast::<S::f32s>().read_unaligned();
                }
                for p in 0..P {
                    let weight = simd.splat_f32s(*weights.add(p * weights_stride + number));
                    for r in 0..R {
                        sums[p][r] = simd.mul_add_e_f32s(weight, vectors[r], sums[p][r]);
                    }
                }
            }
            for p in 0..P {
                for r in 0..R {
                    to.add(p * sums_stride + r * S::F32_LANES).cast::<S::f32s>().write_unaligned(sums[p][r]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::tests::numbers;

    #[test]
    fn small_registers_agree_with_the_definition() {
        const ROWS: usize = 2 * LANES;
        let inputs = 37;
        let (x, weights) = (numbers(ROWS * inputs, 1), numbers(6 * inputs, 4));
        let tiles = columns(&x, inputs);
        let mut sums = vec![1.0; 6 * ROWS];
        let (weights_stride, sums_stride) = (inputs, ROWS);
        let group = Group {
            weights: &weights,
            weights_stride,
            outputs: 6,
            x: &tiles[0].values,
            sums: &mut sums,
            sums_stride,
            adds: true,
        };
        Tile::<6, 2>(group).with_simd(pulp::Scalar::new());
        for (place, sum) in sums.into_iter().enumerate() {
            let (output, row) = (place / ROWS, place % ROWS);
            let exact: f32 = (0..inputs).map(|i| x[row * inputs + i] * weights[output * inputs + i]).sum();
            assert_eq!(sum, exact + 1.0);
        }
    }

    #[test]
    fn what_is_next_to_a_row_changes_no_bit_of_it() {
        // With bf16, first the vector path, then the AMX path if available.
        for (dtype, inputs) in [(DType::F32, 1100), (DType::BF16, 1100), (DType::BF16, 1120)] {
            let (rows, outputs) = (100, 9);
            let wave = |count: usize, pace: f32| (0..count).map(|i| (i as f32 * pace).sin()).collect::<Vec<f32>>();
            let (x, weight) = (wave(rows * inputs, 0.37), wave(outputs * inputs, 0.11));
            let weight = Tensor::from_vec(weight, (outputs, inputs), &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
            let mut together = vec![0.0; rows * outputs];
            multiply_stored(&weight, &x, &mut together, Update::Replace, Cores::All).unwrap();
            for (x, expected) in x.chunks(inputs).zip(together.chunks(outputs)) {
                let mut alone = vec![0.0; outputs];
                multiply_stored(&weight, x, &mut alone, Update::Replace, Cores::One).unwrap();
                assert_eq!(alone, expected);
            }
        }
    }
}
