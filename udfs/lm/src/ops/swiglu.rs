//! The gate of a layer's MLP.

use candle_core::Tensor;

use super::super::Result;
use super::exp::exp;
use super::{for_rows, matrix, read};
use asap_kernels::vectorized::vectorized;

/// silu(gate) · up, element by element, with silu(x) = x / (1 + e⁻ˣ).
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let width = gate.dim(1)?;
    let values = read([gate, up], |[gate, up]| {
        let mut values = gate.to_vec();
        for_rows(&mut values, width, |first, rows| swiglu_rows(rows, &up[first * width..]));
        values
    })?;
    matrix(values, width)
}

/// [`swiglu`] of some rows, which take the place of the gate's.
pub fn swiglu_rows(gate: &mut [f32], up: &[f32]) {
    vectorized(
        #[inline(always)]
        || gate.iter_mut().zip(up).for_each(|(x, up)| *x = *x / (1.0 + exp(-*x)) * up),
    );
}
