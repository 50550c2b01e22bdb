//! Cross-entropy loss of next tokens, from rows of logits.

use rayon::prelude::*;

use super::sums::sum;
use super::{exp, max};
use asap_kernels::vectorized;

/// Turns logits, [targets, vocabulary], into the gradient of `scale` × Σ −ln P(target). Returns the sum, in nats.
///
/// # Panics
/// If there is no target, or a target is not in the vocabulary.
pub fn surprisals(logits: &mut [f32], targets: &[u32], scale: f32) -> f64 {
    let vocabulary = logits.len() / targets.len();
    let surprisal = |(row, target): (&mut [f32], &u32)| {
        let target = *target as usize;
        vectorized!({
            let highest = max(row);
            let below = highest - row[target];
            row.iter_mut().for_each(|x| *x = exp(*x - highest));
            let sum = sum(row);
            let factor = scale / sum;
            row.iter_mut().for_each(|x| *x *= factor);
            row[target] -= scale;
            f64::from(below) + f64::from(sum).ln()
        })
    };
    // Collect before summing: the order of additions must not depend on the number of threads.
    let all: Vec<f64> = logits.par_chunks_exact_mut(vocabulary).zip(targets).map(surprisal).collect();
    all.iter().sum()
}
