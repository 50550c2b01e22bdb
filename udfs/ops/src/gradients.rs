//! Backward passes of layer operations on rows, each from the gradient of the operation's result.
//!
//! Each partial sum covers a fixed number of rows, and partial sums are added in order. Results are therefore identical
//! bit for bit on any number of cores.

use super::exp;
use super::norm::inverse_root_mean_square;
use super::sums::dot;
use asap_kernels::vectorized;

/// Rows per partial sum. Blocks of a multiple of this many rows give the same sums as all rows together.
pub const ROWS_PER_SUM: usize = 64;

/// Turns the gradient of the result of `rms_norm_rows(x, weight, epsilon)` into the gradient of `x`. Returns the
/// concatenated partial sums of the gradient of `weight`, for [`add_parts`].
pub fn rms_norm(gradient: &mut [f32], x: &[f32], weight: &[f32], epsilon: f64) -> Vec<f32> {
    let part = ROWS_PER_SUM * weight.len();
    let mut sums = vec![0.0; x.len().div_ceil(part) * weight.len()];
    let parts = gradient.chunks_mut(part).zip(x.chunks(part)).zip(sums.chunks_exact_mut(weight.len()));
    for ((gradient, x), sum) in parts {
        vectorized!(rms_norm_part(gradient, x, weight, epsilon, sum));
    }
    sums
}

pub fn add_parts(sum: &mut [f32], parts: &[f32]) {
    parts.chunks_exact(sum.len().max(1)).for_each(|part| add(sum, part));
}

#[inline(always)]
fn rms_norm_part(gradient: &mut [f32], x: &[f32], weight: &[f32], epsilon: f64, by_weight: &mut [f32]) {
    let width = weight.len();
    for (gradient, x) in gradient.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
        let inverse = inverse_root_mean_square(x, epsilon);
        for ((gradient, x), (weight, by_weight)) in gradient.iter_mut().zip(x).zip(weight.iter().zip(&mut *by_weight)) {
            *by_weight += *gradient * x * inverse;
            *gradient *= weight;
        }
        let along = dot(gradient, x) * inverse * inverse / width as f32;
        gradient.iter_mut().zip(x).for_each(|(gradient, x)| *gradient = inverse * (*gradient - x * along));
    }
}

/// Replaces gate and up by their gradients, given the gradient of the result of `swiglu_rows(gate, up)`.
pub fn swiglu(gradient: &[f32], gate: &mut [f32], up: &mut [f32]) {
    vectorized!({
        for (gradient, (gate, up)) in gradient.iter().zip(gate.iter_mut().zip(up.iter_mut())) {
            let sigmoid = 1.0 / (1.0 + exp(-*gate));
            let by_up = gradient * *gate * sigmoid;
            *gate = gradient * *up * sigmoid * (1.0 + *gate * (1.0 - sigmoid));
            *up = by_up;
        }
    });
}

pub fn sum_rows(rows: &[f32], sum: &mut [f32]) {
    let mut part = vec![0.0; sum.len()];
    for rows in rows.chunks(ROWS_PER_SUM * sum.len()) {
        part.fill(0.0);
        rows.chunks_exact(part.len()).for_each(|row| add(&mut part, row));
        add(sum, &part);
    }
}

pub fn add(sum: &mut [f32], addends: &[f32]) {
    sum.iter_mut().zip(addends).for_each(|(sum, addend)| *sum += addend);
}

pub fn sum_of_squares(numbers: &[f32]) -> f32 {
    vectorized!(dot(numbers, numbers))
}
