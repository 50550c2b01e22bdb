//! The gradients of what a layer is made of, each from the gradient of the operation's result.
//!
//! Work is split into blocks of rows whose size does not depend on the number of threads, and partial sums are added in
//! order, so that results are the same to the last bit on any number of cores.

use candle_core::Tensor;
use rayon::prelude::*;

use crate::Result;
use crate::ops::Linear;
use crate::ops::{exp, matrix, product, read};
use asap_kernels::vectorized::vectorized;

/// Rows of one task.
const BLOCK_ROWS: usize = 64;

/// The gradients of `ops::linear` by its input and by its weights.
pub fn linear(gradient: &Tensor, x: &Tensor, linear: &Linear) -> Result<(Tensor, Linear)> {
    let width = gradient.dim(1)?;
    let weight = matrix(product(&gradient.t()?, x)?, x.dim(1)?)?;
    let bias = linear.bias.is_some().then(|| read([gradient], |[gradient]| vector(sum_rows(gradient, width))));
    let by_x = matrix(product(gradient, &linear.weight)?, x.dim(1)?)?;
    Ok((by_x, Linear { weight, bias: bias.transpose()?.transpose()? }))
}

/// The gradients of `ops::rms_norm` by its input and by its weight.
pub fn rms_norm(gradient: &Tensor, x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<(Tensor, Tensor)> {
    let width = x.dim(1)?;
    let (by_x, by_weight) = read([gradient, x, weight], |[gradient, x, weight]| {
        let block = BLOCK_ROWS * weight.len();
        let mut by_x = vec![0.0; x.len()];
        let blocks = by_x.par_chunks_mut(block).zip(gradient.par_chunks(block)).zip(x.par_chunks(block));
        let parts = blocks.map(|((by_x, gradient), x)| {
            vectorized(
                #[inline(always)]
                || rms_norm_rows(by_x, gradient, x, weight, epsilon),
            )
        });
        let parts = parts.collect::<Vec<_>>().concat();
        (by_x, sum_rows(&parts, weight.len()))
    })?;
    Ok((matrix(by_x, width)?, vector(by_weight)?))
}

/// Writes the gradient by x and returns the gradient by the weight.
#[inline(always)]
fn rms_norm_rows(by_x: &mut [f32], gradient: &[f32], x: &[f32], weight: &[f32], epsilon: f64) -> Vec<f32> {
    let width = weight.len();
    let mut by_weight = vec![0.0; width];
    let rows = by_x.chunks_exact_mut(width).zip(gradient.chunks_exact(width)).zip(x.chunks_exact(width));
    for ((by_x, gradient), x) in rows {
        let inverse = (f64::from(dot(x, x)) / width as f64 + epsilon).sqrt().recip() as f32;
        for ((by_x, (gradient, x)), (weight, by_weight)) in
            by_x.iter_mut().zip(gradient.iter().zip(x)).zip(weight.iter().zip(&mut by_weight))
        {
            *by_x = gradient * weight;
            *by_weight += gradient * x * inverse;
        }
        let along = dot(by_x, x) * inverse * inverse / width as f32;
        by_x.iter_mut().zip(x).for_each(|(by_x, x)| *by_x = inverse * (*by_x - x * along));
    }
    by_weight
}

/// The gradients of `ops::swiglu` by gate and by up.
pub fn swiglu(gradient: &Tensor, gate: &Tensor, up: &Tensor) -> Result<(Tensor, Tensor)> {
    let width = gate.dim(1)?;
    let (by_gate, by_up) = read([gradient, gate, up], |[gradient, gate, up]| {
        let block = BLOCK_ROWS * width;
        let (mut by_gate, mut by_up) = (vec![0.0; gate.len()], vec![0.0; gate.len()]);
        let results = by_gate.par_chunks_mut(block).zip(by_up.par_chunks_mut(block));
        let inputs = gradient.par_chunks(block).zip(gate.par_chunks(block)).zip(up.par_chunks(block));
        results.zip(inputs).for_each(|((by_gate, by_up), ((gradient, gate), up))| {
            vectorized(
                #[inline(always)]
                || swiglu_block(by_gate, by_up, gradient, gate, up),
            );
        });
        (by_gate, by_up)
    })?;
    Ok((matrix(by_gate, width)?, matrix(by_up, width)?))
}

#[inline(always)]
fn swiglu_block(by_gate: &mut [f32], by_up: &mut [f32], gradient: &[f32], gate: &[f32], up: &[f32]) {
    let inputs = gradient.iter().zip(gate).zip(up);
    for ((by_gate, by_up), ((gradient, gate), up)) in by_gate.iter_mut().zip(by_up).zip(inputs) {
        let sigmoid = 1.0 / (1.0 + exp(-gate));
        *by_up = gradient * gate * sigmoid;
        *by_gate = gradient * up * sigmoid * (1.0 + gate * (1.0 - sigmoid));
    }
}

/// The sum of all rows.
fn sum_rows(x: &[f32], width: usize) -> Vec<f32> {
    let parts = x.par_chunks(BLOCK_ROWS * width).map(|rows| {
        let mut sum = vec![0.0; width];
        rows.chunks_exact(width).for_each(|row| add(&mut sum, row));
        sum
    });
    let mut total = vec![0.0; width];
    parts.collect::<Vec<_>>().iter().for_each(|part| add(&mut total, part));
    total
}

/// Adds number by number.
pub fn add(sum: &mut [f32], addends: &[f32]) {
    sum.iter_mut().zip(addends).for_each(|(sum, addend)| *sum += addend);
}

/// The sum of products, in partial sums that need not wait for each other.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<16>();
    let (b_chunks, b_rest) = b.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

fn vector(values: Vec<f32>) -> Result<Tensor> {
    let count = values.len();
    Ok(matrix(values, count)?.reshape(count)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    /// Central differences of Σ coefficients × result by every number of x.
    fn slopes(x: &Tensor, coefficients: &Tensor, result: impl Fn(&Tensor) -> Tensor) -> Vec<f32> {
        let numbers = x.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let value = |i: usize, change: f32| {
            let mut numbers = numbers.clone();
            numbers[i] += change;
            let changed = Tensor::from_vec(numbers, x.shape(), x.device()).unwrap();
            let product = (result(&changed) * coefficients).unwrap();
            product.to_dtype(candle_core::DType::F64).unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap()
        };
        (0..numbers.len()).map(|i| ((value(i, 1e-2) - value(i, -1e-2)) / 2e-2) as f32).collect()
    }

    fn assert_close(found: &Tensor, expected: &[f32]) {
        let found = found.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 2e-3, "{found} against {expected}");
        }
    }

    fn wave(rows: usize, width: usize, phase: f32) -> Tensor {
        matrix((0..rows * width).map(|i| (i as f32 * 1.7 + phase).sin() * 1.5).collect(), width).unwrap()
    }

    #[test]
    fn gradients_are_the_slopes() {
        let (x, upstream) = (wave(3, 8, 0.0), wave(3, 8, 2.0));
        // Two groups of four in a row, as in the norm of each head.
        let weight = wave(1, 4, 1.0).reshape(4).unwrap();
        let (by_x, by_weight) = rms_norm(&upstream, &x, &weight, 1e-6).unwrap();
        assert_close(&by_x, &slopes(&x, &upstream, |x| ops::rms_norm(x, &weight, 1e-6).unwrap()));
        assert_close(&by_weight, &slopes(&weight, &upstream, |weight| ops::rms_norm(&x, weight, 1e-6).unwrap()));

        let up = wave(3, 8, 3.0);
        let (by_gate, by_up) = swiglu(&upstream, &x, &up).unwrap();
        assert_close(&by_gate, &slopes(&x, &upstream, |gate| ops::swiglu(gate, &up).unwrap()));
        assert_close(&by_up, &slopes(&up, &upstream, |up| ops::swiglu(&x, up).unwrap()));

        let of = |weight: &Tensor, bias: &Tensor| Linear { weight: weight.clone(), bias: Some(bias.clone()) };
        let (weight, bias) = (wave(8, 8, 4.0), wave(1, 8, 5.0).reshape(8).unwrap());
        let (by_x, by_linear) = linear(&upstream, &x, &of(&weight, &bias)).unwrap();
        assert_close(&by_x, &slopes(&x, &upstream, |x| ops::linear(x, &of(&weight, &bias)).unwrap()));
        let by_weight = slopes(&weight, &upstream, |weight| ops::linear(&x, &of(weight, &bias)).unwrap());
        assert_close(&by_linear.weight, &by_weight);
        let by_bias = slopes(&bias, &upstream, |bias| ops::linear(&x, &of(&weight, bias)).unwrap());
        assert_close(&by_linear.bias.unwrap(), &by_bias);
    }

    #[test]
    fn sums_do_not_depend_on_the_blocks() {
        let width = 3;
        let x: Vec<f32> = (0..width * (BLOCK_ROWS * 2 + 5)).map(|i| (i % 7) as f32).collect();
        let expected: Vec<f32> = (0..width).map(|column| x.iter().skip(column).step_by(width).sum()).collect();
        assert_eq!(sum_rows(&x, width), expected);
        assert_eq!(dot(&x[..19], &x[..19]), x[..19].iter().map(|x| x * x).sum::<f32>());
    }
}
