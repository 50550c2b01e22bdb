//! RMSNorm and layer norm of rows.

use super::sums::{dot, sum};
use asap_kernels::vectorized;

/// Applies RMSNorm to each group of `weight.len()` values: a whole row, or a head of queries or keys.
pub fn rms_norm_rows(rows: &mut [f32], weight: &[f32], epsilon: f64) {
    vectorized!({
        for group in rows.chunks_exact_mut(weight.len()) {
            let scale = inverse_root_mean_square(group, epsilon);
            group.iter_mut().zip(weight).for_each(|(x, w)| *x *= scale * w);
        }
    });
}

/// [`rms_norm_rows`], written to another slice.
pub fn rms_norm_to(rows: &[f32], weight: &[f32], epsilon: f64, to: &mut [f32]) {
    vectorized!({
        for (to, group) in to.chunks_exact_mut(weight.len()).zip(rows.chunks_exact(weight.len())) {
            let scale = inverse_root_mean_square(group, epsilon);
            to.iter_mut().zip(group.iter().zip(weight)).for_each(|(to, (x, w))| *to = x * (scale * w));
        }
    });
}

#[inline(always)]
pub(crate) fn inverse_root_mean_square(values: &[f32], epsilon: f64) -> f32 {
    (f64::from(dot(values, values)) / values.len() as f64 + epsilon).sqrt().recip() as f32
}

/// Normalizes each row of `weight.len()` values to mean 0 and variance 1, then multiplies by `weight` and adds `bias`.
pub fn layer_norm_rows(rows: &mut [f32], weight: &[f32], bias: &[f32], epsilon: f64) {
    vectorized!({
        for row in rows.chunks_exact_mut(weight.len()) {
            let mean = sum(row) / row.len() as f32;
            row.iter_mut().for_each(|x| *x -= mean);
            let scale = inverse_root_mean_square(row, epsilon);
            row.iter_mut().zip(weight.iter().zip(bias)).for_each(|(x, (w, b))| *x = *x * scale * w + b);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn layer_norms_agree_with_the_definition(
            values in prop::collection::vec(-9.0_f32..9.0, 2..80), weight in -2.0_f32..2.0, bias in -2.0_f32..2.0,
        ) {
            let count = values.len();
            let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / count as f64;
            let variance = values.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count as f64;
            let mut row = values.clone();
            layer_norm_rows(&mut row, &vec![weight; count], &vec![bias; count], 1e-5);
            for (found, x) in row.iter().zip(&values) {
                let scaled = (f64::from(*x) - mean) / (variance + 1e-5).sqrt();
                let expected = scaled * f64::from(weight) + f64::from(bias);
                // Subtracting the mean loses the last digits of nearly equal values.
                let tolerance = 1e-5 + 1e-5 / (variance + 1e-5).sqrt();
                prop_assert!((f64::from(*found) - expected).abs() < tolerance, "{found} against {expected}");
            }
        }
    }
}
