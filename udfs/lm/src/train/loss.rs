//! The loss of next tokens and its gradient, with the output layer in chunks of rows.

use candle_core::Tensor;
use rayon::prelude::*;

use crate::Result;
use crate::ops::{Cores, Matrix, Update, exp, matrix, multiply, read};
use asap_kernels::vectorized::vectorized;

/// The most logits that memory holds at a time: 128 MB of them.
const CHUNK_LOGITS: usize = 1 << 25;

/// The loss of some rows with its gradient.
#[derive(Debug)]
pub struct Loss {
    /// The sum of −ln P(target) in nats.
    pub nats: f64,
    /// The gradient by the hidden rows, [rows, hidden].
    pub by_hidden: Tensor,
    /// The gradient by the output layer, [vocabulary, hidden].
    pub by_output: Tensor,
}

/// The sum over rows of −ln P(target), where P = softmax(hidden × outputᵀ), with the gradient of `scale` times it.
///
/// `hidden` is [rows, hidden], `output` [vocabulary, hidden], `targets` one token of each row.
///
/// # Errors
/// If the shapes do not fit each other.
pub fn cross_entropy(hidden: &Tensor, output: &Tensor, targets: &[u32], scale: f32) -> Result<Loss> {
    in_chunks(hidden, output, targets, scale, (CHUNK_LOGITS / output.dim(0)?).max(1))
}

fn in_chunks(hidden: &Tensor, output: &Tensor, targets: &[u32], scale: f32, chunk_rows: usize) -> Result<Loss> {
    let (vocabulary, width) = output.dims2()?;
    let mut nats = 0.0;
    let mut by_hidden = vec![0.0; targets.len() * width];
    let mut by_output = vec![0.0; vocabulary * width];
    let mut logits = Vec::new();
    read([hidden, output], |[hidden, output]| {
        let output = Matrix::dense(output, vocabulary, width);
        let chunks = hidden.chunks(chunk_rows * width).zip(by_hidden.chunks_mut(chunk_rows * width));
        for ((hidden, by_hidden), targets) in chunks.zip(targets.chunks(chunk_rows)) {
            let hidden = Matrix::dense(hidden, targets.len(), width);
            logits.resize(targets.len() * vocabulary, 0.0);
            multiply(hidden, output.t(), 1.0, &mut logits, Update::Replace, Cores::All);
            nats += surprisals(&mut logits, targets, scale);
            let by_logits = Matrix::dense(&logits, targets.len(), vocabulary);
            multiply(by_logits, output, 1.0, by_hidden, Update::Replace, Cores::All);
            multiply(by_logits.t(), hidden, 1.0, &mut by_output, Update::Add, Cores::All);
        }
    })?;
    Ok(Loss { nats, by_hidden: matrix(by_hidden, width)?, by_output: matrix(by_output, width)? })
}

/// Turns rows of logits into the gradient by them of `scale` × Σ −ln P(target), and returns the sum without scale.
fn surprisals(logits: &mut [f32], targets: &[u32], scale: f32) -> f64 {
    let vocabulary = logits.len() / targets.len();
    let surprisal = |(row, target): (&mut [f32], &u32)| {
        let target = *target as usize;
        let highest = row.iter().copied().fold(f32::MIN, f32::max);
        let below = highest - row[target];
        let sum = vectorized(
            #[inline(always)]
            || {
                row.iter_mut().for_each(|x| *x = exp(*x - highest));
                sum(row)
            },
        );
        let factor = scale / sum;
        row.iter_mut().for_each(|x| *x *= factor);
        row[target] -= scale;
        f64::from(below) + f64::from(sum).ln()
    };
    // Collected first: the order of the sum must not depend on the number of threads.
    let all: Vec<f64> = logits.par_chunks_exact_mut(vocabulary).zip(targets).map(surprisal).collect();
    all.iter().sum()
}

/// The sum, in partial sums that need not wait for each other.
#[inline(always)]
fn sum(row: &[f32]) -> f32 {
    let (sixteens, rest) = row.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for chunk in sixteens {
        sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x);
    }
    sums.iter().sum::<f32>() + rest.iter().sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn chunks_of_any_size_agree_with_autograd() {
        let wave = |rows: usize, width: usize, pace: f32| {
            let numbers: Vec<f32> = (0..rows * width).map(|i| (i as f32 * pace).sin() * 2.0).collect();
            Var::from_vec(numbers, (rows, width), &Device::Cpu).unwrap()
        };
        let (hidden, output) = (wave(9, 5, 0.9), wave(70, 5, 0.37));
        let targets: Vec<u32> = (0..9).map(|i| i * 7).collect();
        let logits = hidden.matmul(&output.t().unwrap()).unwrap();
        let mean = candle_nn::loss::cross_entropy(&logits, &Tensor::new(targets.as_slice(), &Device::Cpu).unwrap());
        let expected = (mean.unwrap() * 9.0).unwrap();
        let gradients = (&expected * 0.5).unwrap().backward().unwrap();
        let expected = f64::from(expected.to_scalar::<f32>().unwrap());
        for chunk_rows in [1, 4, 9, 100] {
            let found = in_chunks(&hidden, &output, &targets, 0.5, chunk_rows).unwrap();
            assert!((found.nats - expected).abs() < 1e-4, "{} against {expected}", found.nats);
            for (found, variable) in [(found.by_hidden, &hidden), (found.by_output, &output)] {
                let difference = (found - gradients.get(variable).unwrap()).unwrap();
                assert!(difference.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap() < 1e-5);
            }
        }
    }
}
