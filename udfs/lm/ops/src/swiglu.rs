//! The gate of a layer's MLP.

use super::exp::exp;
use asap_kernels::vectorized::vectorized;

/// silu(gate) · up, element by element, with silu(x) = x / (1 + e⁻ˣ). It takes the place of the gate.
pub fn swiglu_rows(gate: &mut [f32], up: &[f32]) {
    vectorized(
        #[inline(always)]
        || gate.iter_mut().zip(up).for_each(|(x, up)| *x = *x / (1.0 + exp(-*x)) * up),
    );
}
