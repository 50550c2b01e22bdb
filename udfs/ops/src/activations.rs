//! Activations: SwiGLU of a decoder's MLP, GELU of an encoder's.

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

/// Computes GELU in place: x · Φ(x), Φ(x) = (1 + erf(x / √2)) / 2, within 1e-7 · |x|. This is the erf form, not tanh.
pub fn gelu_rows(values: &mut [f32]) {
    vectorized!(values.iter_mut().for_each(|x| *x *= 0.5 * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2))));
}

/// The error function within 2e-7: a polynomial near 0, elsewhere 1 − exp(polynomial), fitted by N. Juffa.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let (size, square) = (x.abs(), x * x);
    let mut near = -5.967_617e-4;
    near = near * square + 4.991_194_2e-3;
    near = near * square - 2.676_813_5e-2;
    near = near * square + 1.128_199_25e-1;
    near = near * square - 3.761_253_4e-1;
    near = near * square + 1.283_791_7e-1;
    let near = near * x + x;
    let low = -1.728_534_7e-5 * size + 3.831_971_3e-4;
    let mut power = low * square + (-3.883_964_4e-3 * size + 2.425_462_2e-2);
    power = power * size - 1.067_778_8e-1;
    power = power * size - 6.348_467e-1;
    power = power * size - 1.287_175_1e-1;
    let far = (1.0 - exp(power * size - size)).copysign(x);
    if size > 0.927_734_4 { far } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(x: f64) -> f64 {
        let mut term = x;
        let mut sum = x;
        for n in 1..120 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    proptest! {
        #[test]
        fn the_error_function_agrees_with_its_series(x in -4.0_f32..4.0) {
            prop_assert!((f64::from(erf(x)) - series(f64::from(x))).abs() < 2e-7, "{x}: {}", erf(x));
        }
    }

    #[test]
    fn far_from_zero_it_is_the_identity_or_zero() {
        let values = [-1e30, -40.0, -6.0, 0.0, 1.0, 6.0, 40.0, 1e30_f32];
        let expected = [0.0, 0.0, 0.0, 0.0, 0.841_344_7, 6.0, 40.0, 1e30];
        let mut found = values;
        gelu_rows(&mut found);
        for ((x, found), expected) in values.iter().zip(found).zip(expected) {
            assert!((found - expected).abs() <= 1e-7 * x.abs(), "{found} against {expected}");
        }
    }
}
