//! Gradients and steps against torch (goldens) and against autograd on composed operations.

mod autograd;
mod goldens;

use std::collections::HashMap;

use candle_core::Tensor;

use super::Gradient;
use crate::weights::Weights;

/// Asserts for every tensor that no number is off by more than `tolerance` times the tensor's largest number.
fn assert_gradients(found: &Weights, expected: &HashMap<String, Tensor>, tolerance: f32) {
    let mut sum = Gradient::zeros(found);
    sum.add(found).unwrap();
    assert_eq!(sum.tensors().len(), expected.len());
    for ((name, _), found) in found.named().iter().zip(sum.tensors()) {
        let (distance, largest) = distance(found, &expected[name]);
        assert!(largest > 0.0, "{name} has no gradient");
        assert!(distance <= tolerance * largest, "{name} is off by {distance}, its largest number is {largest}");
    }
}

/// The largest difference, and the largest number that is expected.
fn distance(found: &[f32], expected: &Tensor) -> (f32, f32) {
    let expected = expected.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert_eq!(found.len(), expected.len());
    let distance = found.iter().zip(&expected).fold(0.0_f32, |worst, (a, b)| worst.max((a - b).abs()));
    (distance, expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs())))
}
