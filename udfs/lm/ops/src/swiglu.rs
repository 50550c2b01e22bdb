//! SwiGLU: the gated activation of a layer's MLP.

use super::exp::exp;
use asap_kernels::vectorized;

/// Computes silu(gate) · up in place of `gate`, with silu(x) = x / (1 + e⁻ˣ).
pub fn swiglu_rows(gate: &mut [f32], up: &[f32]) {
    vectorized!(gate.iter_mut().zip(up).for_each(|(x, up)| *x = swiglu(*x, *up)));
}

/// [`swiglu_rows`], written to another slice.
pub fn swiglu_to(gate: &[f32], up: &[f32], to: &mut [f32]) {
    vectorized!(to.iter_mut().zip(gate.iter().zip(up)).for_each(|(to, (x, up))| *to = swiglu(*x, *up)));
}

#[inline(always)]
fn swiglu(gate: f32, up: f32) -> f32 {
    gate / (1.0 + exp(-gate)) * up
}
