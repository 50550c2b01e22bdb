//! Compares gradients and steps with torch (goldens) and with autograd on composed operations.

mod autograd;
mod goldens;

use std::collections::HashMap;

use candle_core::Tensor;

use super::{Activations, Batch, Gradient, Keep};
use crate::model::decoder::Decoder;
use crate::model::weights::Weights;

/// The loss of a batch in nats and the gradient of `scale` times it. Keeping fewer activations gives the same bits, and
/// so does any number of cores.
fn gradient(decoder: &Decoder, batch: &Batch, scale: f32) -> (f64, Gradient) {
    let compute = |keep: Keep, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut sum = Gradient::zeros(&decoder.weights);
        let mut activations = Activations::new(keep);
        (pool.install(|| activations.gradient(decoder, batch, scale, &mut sum, &|| true).unwrap()), sum)
    };
    let (nats, sum) = compute(Keep::All, 2);
    for (keep, threads) in [(Keep::Inputs, 1), (Keep::Attention, 3), (Keep::All, 1)] {
        let (again, less) = compute(keep, threads);
        assert_eq!(again, nats, "{keep:?}");
        assert!(less.tensors == sum.tensors, "{keep:?} has other gradients");
    }
    (nats, sum)
}

/// Asserts for every tensor that no number is off by more than `tolerance` times the tensor's largest number.
fn assert_gradients(weights: &Weights, found: &Gradient, expected: &HashMap<String, Tensor>, tolerance: f32) {
    assert_eq!(found.tensors.len(), expected.len());
    for ((name, _), found) in weights.named().iter().zip(&found.tensors) {
        let (distance, largest) = distance(found, &expected[name]);
        assert!(largest > 0.0, "{name} has no gradient");
        assert!(distance <= tolerance * largest, "{name} is off by {distance}, its largest number is {largest}");
    }
}

fn distance(found: &[f32], expected: &Tensor) -> (f32, f32) {
    let expected = expected.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert_eq!(found.len(), expected.len());
    let distance = found.iter().zip(&expected).fold(0.0_f32, |worst, (a, b)| worst.max((a - b).abs()));
    (distance, expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs())))
}
