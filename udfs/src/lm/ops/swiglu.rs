//! The gate of a layer's MLP.

use candle_core::Tensor;

use super::super::Result;
use super::exp::exp;
use super::{for_tokens, matrix, read};

/// silu(gate) · up, element by element, with silu(x) = x / (1 + e⁻ˣ).
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let width = gate.dim(1)?;
    let values = read([gate, up], |[gate, up]| {
        let mut values = gate.to_vec();
        for_tokens(&mut values, width, |token, row| {
            let up = &up[token * width..(token + 1) * width];
            row.iter_mut().zip(up).for_each(|(x, up)| *x = *x / (1.0 + exp(-*x)) * up);
        });
        values
    })?;
    matrix(values, width)
}
