//! Products with bf16 weights and f32 sums. Uses whichever is fastest here: AMX or AVX-512 dot products with
//! activations rounded to bf16, or f32 products with widened weights.
#![allow(unsafe_code, reason = "the matrix unit takes pairs of numbers as numbers")]

use std::cell::RefCell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use candle_core::{DType, Tensor};
use half::bf16;

use super::arithmetic::Arithmetic;
use super::gemm::{Cores, multiply_right};
use super::lines::{Line, PAIRS_AT_ONCE, PANEL};
use super::matrix::{Matrix, Update, common_rows};
use super::panels::{Panels, panel_width};
use super::projection::{Projection, Weight};
use super::tiles::Right;
use super::{Result, read};
#[cfg(target_arch = "x86_64")]
use super::{amx, dots};
use asap_kernels::vectorized;

/// Most pairs of inputs per tile: 40 KiB of weights, which stay in the L1 cache for all rows.
#[cfg(target_arch = "x86_64")]
const PAIRS: usize = 160;
/// Most pairs of inputs to widen together: 128 KiB of f32, which stay in the L2 cache for all rows.
const WIDENED_PAIRS: usize = 256;
/// Rows, inputs and outputs of the product that is timed: 0.1 GFLOP.
const ROWS: usize = 192;
const WIDTH: usize = 512;
const TRIALS: usize = 3;

impl Arithmetic {
    /// Returns the fastest arithmetic, timed once per process for a few milliseconds. bf16 dot products are twice as
    /// fast as f32 on some CPUs and slower on others.
    fn fastest() -> Self {
        static FASTEST: OnceLock<Arithmetic> = OnceLock::new();
        *FASTEST.get_or_init(|| {
            // Interleave the trials, so that other load on the CPU affects all of them.
            let trials = (0..TRIALS).flat_map(|_| Self::here());
            trials.min_by_key(|arithmetic| arithmetic.time()).unwrap_or(Self::Widened)
        })
    }

    fn time(self) -> Duration {
        let matrix = Bf16Matrix::pack(&vec![bf16::ONE; WIDTH * WIDTH], WIDTH, WIDTH);
        let (x, mut to) = (vec![0.5; ROWS * WIDTH], vec![0.0; ROWS * WIDTH]);
        let begun = Instant::now();
        matrix.multiply_by(self, &x, &mut to, Update::Replace);
        begun.elapsed()
    }
}

/// A bf16 weight, [outputs, inputs], in panels of 64 outputs, stored pair of inputs by pair of inputs.
#[derive(Debug, Clone)]
pub struct Bf16Matrix {
    outputs: usize,
    inputs: usize,
    lines: Vec<Line>,
}

impl Bf16Matrix {
    /// Packs a row-major weight.
    pub fn pack(values: &[bf16], outputs: usize, inputs: usize) -> Self {
        assert_eq!(values.len(), outputs * inputs, "length of the weight");
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

    /// Rounds rows of `inputs` numbers to bf16 and packs them like a weight.
    pub(super) fn round(rows: &[f32], inputs: usize) -> Self {
        let mut rounded = vec![bf16::ZERO; rows.len()];
        vectorized!(rounded.iter_mut().zip(rows).for_each(|(to, x)| *to = bf16::from_bits(nearest(*x) as u16)));
        Self::pack(&rounded, rows.len() / inputs, inputs)
    }

    /// The lines of the panel that holds this output, and the half of it that the output is in.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn block(&self, output: usize) -> (&[Line], usize) {
        let lines = padded_pairs(self.inputs) * (PANEL / 16);
        (&self.lines[output / PANEL * lines..][..lines], output % PANEL / amx::BLOCK)
    }

    pub(super) fn multiply_by(&self, arithmetic: Arithmetic, x: &[f32], to: &mut [f32], write: Update) {
        if common_rows(x, self.inputs, to, self.outputs) == 0 {
            return;
        }
        match arithmetic {
            Arithmetic::Widened => self.multiply_widened(x, to, write),
            #[cfg(target_arch = "x86_64")]
            Arithmetic::MatrixUnit | Arithmetic::Dots => self.multiply_rounded(x, to, write, unit(arithmetic).as_ref()),
        }
    }

    /// Widens a part of a panel's inputs to f32 at a time and uses it for all rows.
    fn multiply_widened(&self, x: &[f32], to: &mut [f32], write: Update) {
        thread_local! {
            static WIDENED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
        }
        let (rows, pairs) = (x.len() / self.inputs, padded_pairs(self.inputs));
        let part = pairs.div_ceil(pairs.div_ceil(WIDENED_PAIRS));
        WIDENED.with_borrow_mut(|widened| {
            widened.resize(2 * PANEL * part, 0.0);
            for (panel, lines) in self.lines.chunks_exact(pairs * (PANEL / 16)).enumerate() {
                let from = panel * PANEL;
                let outputs = PANEL.min(self.outputs - from);
                for (index, lines) in lines.chunks(part * (PANEL / 16)).enumerate() {
                    let first = 2 * part * index;
                    // The last pairs of a panel may be padding.
                    let Some(inputs) = self.inputs.checked_sub(first).filter(|inputs| *inputs > 0) else { break };
                    vectorized!(widen(lines, widened));
                    let inputs = inputs.min(2 * part);
                    let weights = Panels::new(widened, (inputs, outputs), PANEL, panel_width());
                    let x = Matrix::new(&x[first..], (rows, inputs), (self.inputs, 1));
                    let write = if index == 0 { write } else { Update::Add };
                    let to = (&mut to[from..], self.outputs);
                    multiply_right(x, Right::Panels(weights), 1.0, to, write, Cores::One);
                }
            }
        });
    }

    #[cfg(target_arch = "x86_64")]
    fn multiply_rounded(&self, x: &[f32], to: &mut [f32], write: Update, unit: Option<&amx::Unit>) {
        thread_local! {
            static ROUNDED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
        }
        ROUNDED.with_borrow_mut(|rounded| {
            round_rows(x, self.inputs, rounded);
            self.multiply_pairs(rounded, to, write, unit);
        });
    }

    /// Multiplies a part of a panel's inputs at a time, so that all rows read its weights from the L1 cache.
    #[cfg(target_arch = "x86_64")]
    fn multiply_pairs(&self, x: &[u32], to: &mut [f32], write: Update, unit: Option<&amx::Unit>) {
        let pairs = padded_pairs(self.inputs);
        // Parts of equal size instead of a small last one.
        let part = pairs.div_ceil(pairs.div_ceil(PAIRS)).next_multiple_of(PAIRS_AT_ONCE);
        for (panel, lines) in self.lines.chunks_exact(pairs * (PANEL / 16)).enumerate() {
            for (index, weights) in lines.chunks(part * (PANEL / 16)).enumerate() {
                let write = if index == 0 { write } else { Update::Add };
                by_panel(unit, (&x[index * part..], pairs), weights, (to, self.outputs), panel * PANEL, write);
            }
        }
    }
}

impl Weight for Bf16Matrix {
    fn dtype(_: DType) -> DType {
        DType::BF16
    }

    fn new(weight: Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        read::<bf16, 1, _>([&weight], |[numbers]| Self::pack(numbers, outputs, inputs))
    }
}

impl Projection for Bf16Matrix {
    /// Where the CPU multiplies bf16 faster than f32, the rows are rounded to bf16.
    fn multiply(&self, x: &[f32], to: &mut [f32], write: Update, _: Cores) -> Result<()> {
        self.multiply_by(Arithmetic::fastest(), x, to, write);
        Ok(())
    }

    fn attention() -> Arithmetic {
        Arithmetic::fastest()
    }
}

/// The matrix unit, if the arithmetic is its own.
#[cfg(target_arch = "x86_64")]
pub(super) fn unit(arithmetic: Arithmetic) -> Option<amx::Unit> {
    (arithmetic == Arithmetic::MatrixUnit).then(amx::Unit::set_up)
}

/// Multiplies all rows by one panel of weights, or a part of its inputs, with the matrix unit or else dot products.
/// `x` holds pairs, its rows a stride apart; `from` is the panel's first output.
#[cfg(target_arch = "x86_64")]
pub(super) fn by_panel(
    unit: Option<&amx::Unit>,
    (x, stride): (&[u32], usize),
    weights: &[Line],
    (to, width): (&mut [f32], usize),
    from: usize,
    write: Update,
) {
    if let Some(unit) = unit {
        return by_unit(unit, (x, stride), weights, (to, width), from, write);
    }
    for (tile, to) in to.chunks_mut(dots::ROWS * width).enumerate() {
        let x = &x[tile * dots::ROWS * stride..];
        dots::Tile { weights, x, x_stride: stride, from, to, to_width: width, write }.multiply();
    }
}

/// Multiplies all rows by one panel with AMX, over a part of the inputs. Incomplete blocks go through a buffer.
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

#[cfg(target_arch = "x86_64")]
fn numbers(pairs: &[u32]) -> &[bf16] {
    // SAFETY: a pair is the bits of two bf16 numbers, and any bits are a valid bf16.
    unsafe { std::slice::from_raw_parts(pairs.as_ptr().cast(), 2 * pairs.len()) }
}

/// Rounds rows to bf16. The room has whole blocks of rows, as AMX takes them; the last rows hold arbitrary numbers.
#[cfg(target_arch = "x86_64")]
pub(super) fn round_rows(rows: &[f32], width: usize, rounded: &mut Vec<u32>) {
    let pairs = padded_pairs(width);
    rounded.resize((rows.len() / width).next_multiple_of(amx::BLOCK) * pairs, 0);
    rows.chunks_exact(width).zip(rounded.chunks_exact_mut(pairs)).for_each(|(row, to)| dots::round(row, to));
}

pub(super) fn padded_pairs(inputs: usize) -> usize {
    inputs.div_ceil(2).next_multiple_of(PAIRS_AT_ONCE)
}

/// Packs two bf16 numbers as the instructions expect them; a missing one is zero.
fn joined(numbers: &[bf16]) -> u32 {
    let bits = |i: usize| numbers.get(i).map_or(0, |x| u32::from(x.to_bits()));
    bits(0) | bits(1) << 16
}

#[inline(always)]
pub(super) fn nearest(x: f32) -> u32 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if x.is_nan() { 0x7fc0 } else { nearest }
}

/// Widens the weights of pairs of inputs to f32, 64 outputs per input.
#[inline(always)]
fn widen(lines: &[Line], to: &mut [f32]) {
    for (pair, to) in lines.chunks_exact(PANEL / 16).zip(to.chunks_exact_mut(2 * PANEL)) {
        let (first, second) = to.split_at_mut(PANEL);
        for (bits, (first, second)) in pair.iter().flat_map(|line| &line.0).zip(first.iter_mut().zip(second)) {
            *first = f32::from_bits(bits << 16);
            *second = f32::from_bits(bits & 0xffff_0000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        let numbers = (0..=u32::MAX).step_by(4093).map(f32::from_bits).filter(|x| !x.is_nan());
        numbers.for_each(|x| assert_eq!(nearest(x), u32::from(bf16::from_f32(x).to_bits()), "{x}"));
    }
}
