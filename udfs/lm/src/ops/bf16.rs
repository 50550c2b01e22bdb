//! Products with weights in bf16, rounded activations and sums in f32: by the processor's matrix unit or its bf16 instructions
//! where it has them, else by plain loops over the same numbers.
#![allow(unsafe_code, reason = "the bf16 instructions are only reached by intrinsics that take pointers")]

use std::cell::RefCell;

use half::bf16;

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::gemm::Update;
use asap_kernels::vectorized::vectorized;

/// Outputs that a tile computes: four vectors of 16.
pub(super) const PANEL: usize = 64;
/// Rows of activations that a tile computes: with four vectors of weights, 24 sums and a pair fill 29 of 32 registers.
const ROWS: usize = 6;
/// Pairs of inputs that a tile takes at most: 40 KiB of weights, which stay in the first cache for all rows.
const PAIRS: usize = 160;
/// A weight has a multiple of so many pairs, the last ones of zeros: the matrix unit takes as many at once.
pub(super) const PAIRS_AT_ONCE: usize = 16;

/// A cache line of pairs of bf16 numbers; the first of a pair is its low half. Vectors then never cross a line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Line([u32; 16]);

/// A weight, [outputs, inputs], in bf16: in panels of 64 outputs, pair of inputs by pair of inputs.
#[derive(Debug, Clone)]
pub struct Bf16Matrix {
    outputs: usize,
    inputs: usize,
    lines: Vec<Line>,
}

impl Bf16Matrix {
    /// Orders a weight that is stored output by output.
    ///
    /// # Panics
    /// If `values` has another length than outputs × inputs.
    pub fn pack(values: &[bf16], outputs: usize, inputs: usize) -> Self {
        assert_eq!(values.len(), outputs * inputs, "numbers of a weight");
        let pairs = padded_pairs(inputs);
        let mut lines = vec![Line::default(); outputs.div_ceil(PANEL) * pairs * (PANEL / 16)];
        for (output, row) in values.chunks_exact(inputs).enumerate() {
            let (panel, lane) = (output / PANEL, output % PANEL);
            for (pair, numbers) in row.chunks(2).enumerate() {
                let line = (panel * pairs + pair) * (PANEL / 16) + lane / 16;
                lines[line].0[lane % 16] = joined(numbers);
            }
        }
        Self { outputs, inputs, lines }
    }

    /// Orders rows of `inputs` numbers, rounded to bf16, as if each were what gives an output.
    pub(super) fn round(rows: &[f32], inputs: usize) -> Self {
        let mut rounded = vec![bf16::ZERO; rows.len()];
        vectorized(
            #[inline(always)]
            || rounded.iter_mut().zip(rows).for_each(|(to, x)| *to = bf16::from_bits(nearest(*x) as u16)),
        );
        Self::pack(&rounded, rows.len() / inputs, inputs)
    }

    /// The lines of the panel that this output is in, and in which half of it.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn block(&self, output: usize) -> (&[Line], usize) {
        let lines = padded_pairs(self.inputs) * (PANEL / 16);
        (&self.lines[output / PANEL * lines..][..lines], output % PANEL / amx::BLOCK)
    }

    /// x · Wᵀ for rows of `inputs` numbers, which are rounded to bf16: written to `to`, `outputs` numbers a row.
    ///
    /// # Panics
    /// If `x` and `to` do not have the same number of whole rows.
    pub fn multiply(&self, x: &[f32], to: &mut [f32], write: Update) {
        thread_local! {
            /// The rounded rows; kept, since fresh memory costs more than rounding.
            static ROUNDED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
        }
        let rows = x.len() / self.inputs;
        assert_eq!((x.len(), to.len()), (rows * self.inputs, rows * self.outputs), "rows of a product");
        ROUNDED.with_borrow_mut(|rounded| {
            rounded.resize(rows.next_multiple_of(rows_at_once()) * padded_pairs(self.inputs), 0);
            vectorized(
                #[inline(always)]
                || round(x, self.inputs, rounded),
            );
            self.multiply_rounded(rounded, to, write);
        });
    }

    /// Part by part of a panel's inputs, so that the part's weights are read from the first cache for all rows.
    fn multiply_rounded(&self, x: &[u32], to: &mut [f32], write: Update) {
        let pairs = padded_pairs(self.inputs);
        // Parts of one size, rather than a small one at the end.
        let part = pairs.div_ceil(pairs.div_ceil(PAIRS)).next_multiple_of(PAIRS_AT_ONCE);
        #[cfg(target_arch = "x86_64")]
        let unit = amx::is_there().then(amx::Unit::set_up);
        for (panel, lines) in self.lines.chunks_exact(pairs * (PANEL / 16)).enumerate() {
            for (index, weights) in lines.chunks(part * (PANEL / 16)).enumerate() {
                let write = if index == 0 { write } else { Update::Add };
                let (from, to_width) = (panel * PANEL, self.outputs);
                #[cfg(target_arch = "x86_64")]
                if let Some(unit) = &unit {
                    by_unit(unit, (&x[index * part..], pairs), weights, (to, to_width), from, write);
                    continue;
                }
                for (x, to) in x.chunks(ROWS * pairs).zip(to.chunks_mut(ROWS * to_width)) {
                    let tile = Tile { weights, x: &x[index * part..], x_stride: pairs, from, to, to_width, write };
                    tile.multiply();
                }
            }
        }
    }
}

/// All rows of a panel, over a part of the inputs, by the matrix unit. What reaches beyond rows or outputs goes through a block
/// of its own.
#[cfg(target_arch = "x86_64")]
fn by_unit(
    unit: &amx::Unit,
    x: (&[u32], usize),
    weights: &[Line],
    (to, width): (&mut [f32], usize),
    from: usize,
    write: Update,
) {
    use amx::BLOCK;
    let rows = to.len() / width;
    let mut edge = [0.0; BLOCK * BLOCK];
    for half in 0..PANEL / BLOCK {
        let first_output = from + half * BLOCK;
        let outputs = BLOCK.min(width.saturating_sub(first_output));
        if outputs == 0 {
            break;
        }
        for first in (0..rows).step_by(BLOCK) {
            let own = (numbers(&x.0[first * x.1..]), 2 * x.1);
            let to = &mut to[first * width..][..BLOCK.min(rows - first) * width];
            if outputs == BLOCK && to.len() == BLOCK * width {
                unit.multiply(own, (weights, half), (&mut to[first_output..], width), write);
                continue;
            }
            for (row, edge) in to.chunks_exact(width).zip(edge.chunks_exact_mut(BLOCK)) {
                edge[..outputs].copy_from_slice(&row[first_output..][..outputs]);
            }
            unit.multiply(own, (weights, half), (&mut edge, BLOCK), write);
            for (row, edge) in to.chunks_exact_mut(width).zip(edge.chunks_exact(BLOCK)) {
                row[first_output..][..outputs].copy_from_slice(&edge[..outputs]);
            }
        }
    }
}

/// Pairs as the numbers that they are.
#[cfg(target_arch = "x86_64")]
fn numbers(pairs: &[u32]) -> &[bf16] {
    // SAFETY: a pair is the bits of two of them, and any bits are one.
    unsafe { std::slice::from_raw_parts(pairs.as_ptr().cast(), 2 * pairs.len()) }
}

/// Some rows of a panel, over a part of the inputs.
struct Tile<'a> {
    /// Four lines for each pair of inputs.
    weights: &'a [Line],
    /// The first row's first pair; each row is `x_stride` pairs after the one before.
    x: &'a [u32],
    x_stride: usize,
    /// The first output.
    from: usize,
    /// At most `ROWS` rows of `to_width` outputs.
    to: &'a mut [f32],
    to_width: usize,
    write: Update,
}

impl Tile<'_> {
    fn multiply(self) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16") {
            // SAFETY: the CPU was asked.
            return unsafe { self.multiply_by_instructions() };
        }
        by_loops(self);
    }

    /// # Safety
    /// The CPU has AVX-512 F and BF16.
    #[cfg(target_arch = "x86_64")]
    unsafe fn multiply_by_instructions(self) {
        let rows = self.to.len() / self.to_width;
        let pairs = self.weights.len() / (PANEL / 16);
        assert!(rows > 0 && (rows - 1) * self.x_stride + pairs <= self.x.len(), "pairs of a tile");
        assert!(self.from < self.to_width, "outputs of a tile");
        // SAFETY: the caller promises the instructions; the assertions are what else the kernel needs: each of the rows
        // has the pairs that the weights have, and `to` has that many rows.
        unsafe {
            match rows {
                1 => x86::tile::<1>(self),
                2 => x86::tile::<2>(self),
                3 => x86::tile::<3>(self),
                4 => x86::tile::<4>(self),
                5 => x86::tile::<5>(self),
                _ => x86::tile::<ROWS>(self),
            }
        }
    }
}

/// Pairs of a row of inputs, with those of zeros behind them.
fn padded_pairs(inputs: usize) -> usize {
    inputs.div_ceil(2).next_multiple_of(PAIRS_AT_ONCE)
}

/// Rounded rows are a multiple of so many, the last ones of anything: the matrix unit takes as many.
fn rows_at_once() -> usize {
    #[cfg(target_arch = "x86_64")]
    if amx::is_there() {
        return amx::BLOCK;
    }
    1
}

/// Two bf16 numbers as the instructions take them; zero stands for a missing one.
fn joined(numbers: &[bf16]) -> u32 {
    let bits = |i: usize| numbers.get(i).map_or(0, |x| u32::from(x.to_bits()));
    bits(0) | bits(1) << 16
}

/// The bits of the nearest bf16, ties to even.
#[inline(always)]
fn nearest(x: f32) -> u32 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if x.is_nan() { 0x7fc0 } else { nearest }
}

/// Rounds rows of `inputs` numbers.
#[inline(always)]
fn round(x: &[f32], inputs: usize, rounded: &mut [u32]) {
    for (row, rounded) in x.chunks_exact(inputs).zip(rounded.chunks_exact_mut(padded_pairs(inputs))) {
        let (pairs, rest) = row.as_chunks::<2>();
        let (rounded, padding) = rounded.split_at_mut(pairs.len());
        for ([a, b], to) in pairs.iter().zip(rounded) {
            *to = nearest(*a) | nearest(*b) << 16;
        }
        padding.fill(0);
        if let ([last], Some(to)) = (rest, padding.first_mut()) {
            *to = nearest(*last);
        }
    }
}

fn by_loops(mut tile: Tile) {
    vectorized(
        #[inline(always)]
        || loops(&mut tile),
    );
}

#[inline(always)]
fn loops(tile: &mut Tile) {
    let Tile { weights, x, x_stride, from, to_width, write, .. } = *tile;
    for (row, to) in tile.to.chunks_exact_mut(to_width).enumerate() {
        let mut sums = [0.0; PANEL];
        for (weights, x) in weights.as_chunks::<{ PANEL / 16 }>().0.iter().zip(&x[row * x_stride..]) {
            let (low, high) = (f32::from_bits(x << 16), f32::from_bits(x & 0xffff_0000));
            for (sum, pair) in sums.iter_mut().zip(weights.iter().flat_map(|line| &line.0)) {
                *sum += f32::from_bits(pair << 16) * low + f32::from_bits(pair & 0xffff_0000) * high;
            }
        }
        for (to, sum) in to[from..].iter_mut().zip(sums) {
            *to = if write == Update::Add { *to + sum } else { sum };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512bh, __m512i, __mmask16, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_load_si512, _mm512_mask_storeu_ps,
        _mm512_maskz_loadu_ps, _mm512_set1_epi32, _mm512_setzero_ps,
    };

    use super::{PANEL, Tile, Update};

    /// `N` rows of a tile.
    ///
    /// # Safety
    /// The CPU has the instructions; `x` holds for each of N rows as many pairs as there are weights; `to` holds N rows,
    /// in which `from` lies.
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) unsafe fn tile<const N: usize>(tile: Tile) {
        const VECTORS: usize = PANEL / 16;
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; N];
        let rows: [*const u32; N] = std::array::from_fn(|row| tile.x.as_ptr().wrapping_add(row * tile.x_stride));
        for (pair, lines) in tile.weights.as_chunks::<VECTORS>().0.iter().enumerate() {
            // SAFETY: a line is 64 aligned bytes, and vectors of integers and of bf16 numbers are the same bits.
            let weights: [__m512bh; VECTORS] = std::array::from_fn(|i| unsafe {
                std::mem::transmute::<__m512i, __m512bh>(_mm512_load_si512(lines[i].0.as_ptr().cast()))
            });
            for (row, sums) in rows.iter().zip(&mut sums) {
                // SAFETY: the caller promises a pair in each row for each group of lines.
                let x = unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(*row.add(pair) as i32)) };
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    *sum = _mm512_dpbf16_ps(*sum, weights, x);
                }
            }
        }
        let count = (tile.to_width - tile.from).min(PANEL);
        for (row, sums) in sums.iter().enumerate() {
            for (i, sum) in sums.iter().enumerate().take_while(|(i, _)| i * 16 < count) {
                let mask = u16::MAX >> (16 - (count - i * 16).min(16)) as __mmask16;
                let to = tile.to.as_mut_ptr().wrapping_add(row * tile.to_width + tile.from + i * 16);
                // SAFETY: the mask leaves only outputs of this row, which the caller promises.
                unsafe {
                    let before =
                        if tile.write == Update::Add { _mm512_maskz_loadu_ps(mask, to) } else { _mm512_setzero_ps() };
                    _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(before, *sum));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn products_agree_with_the_definition(
            rows in prop_oneof![1_usize..20, 30_usize..70], outputs in 1_usize..200, inputs in prop_oneof![1_usize..40, 300_usize..800], seed in 0_u32..1000,
        ) {
            let draw = |i: usize| ((i as u32 + seed).wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7 - 0.8;
            let weights: Vec<bf16> = (0..outputs * inputs).map(|i| bf16::from_f32(draw(i))).collect();
            let x: Vec<f32> = (0..rows * inputs).map(|i| draw(i * 3 + 1)).collect();
            let exact = |row: usize, output: usize| -> f64 {
                let weights = &weights[output * inputs..][..inputs];
                let x = x[row * inputs..][..inputs].iter().map(|x| bf16::from_f32(*x));
                x.zip(weights).map(|(x, w)| x.to_f64() * w.to_f64()).sum()
            };
            let matrix = Bf16Matrix::pack(&weights, outputs, inputs);
            let mut rounded = vec![0; rows * padded_pairs(inputs)];
            round(&x, inputs, &mut rounded);
            let ones = vec![1.0; rows * outputs];
            let [mut plain, mut tiled, mut replaced, mut added] = [(); 4].map(|()| ones.clone());
            matrix.multiply(&x, &mut replaced, Update::Replace);
            matrix.multiply(&x, &mut added, Update::Add);
            // Where there is a matrix unit, tiles are not what `multiply` takes.
            let x_stride = padded_pairs(inputs);
            let tiles = rounded.chunks(ROWS * x_stride);
            let (plains, tileds) = (plain.chunks_mut(ROWS * outputs), tiled.chunks_mut(ROWS * outputs));
            for (x, (plain, tiled)) in tiles.zip(plains.zip(tileds)) {
                let weights = &matrix.lines[..x_stride * 4];
                let tile = |to| Tile { weights, x, x_stride, from: 0, to, to_width: outputs, write: Update::Replace };
                by_loops(tile(plain));
                tile(tiled).multiply();
            }
            for row in 0..rows {
                for output in 0..outputs {
                    let (place, exact) = (row * outputs + output, exact(row, output));
                    prop_assert!((f64::from(replaced[place]) - exact).abs() < 1e-3, "{} {exact}", replaced[place]);
                    prop_assert!((f64::from(added[place]) - exact - 1.0).abs() < 1e-3);
                    if output < PANEL {
                        prop_assert!((f64::from(plain[place]) - exact).abs() < 1e-3);
                        prop_assert!((f64::from(tiled[place]) - exact).abs() < 1e-3);
                    }
                }
            }
        }
    }
}
