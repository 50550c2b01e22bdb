//! Root mean square normalisation.

use asap_kernels::vectorized::vectorized;

/// Each group of `weight`'s length within a row, divided by the root of its mean square and multiplied by `weight`:
/// a whole row for the norms of a layer, a head for those of queries and keys.
pub fn rms_norm_rows(rows: &mut [f32], weight: &[f32], epsilon: f64) {
    vectorized(
        #[inline(always)]
        || {
            for group in rows.chunks_exact_mut(weight.len()) {
                let scale = inverse_root_mean_square(group, epsilon);
                group.iter_mut().zip(weight).for_each(|(x, w)| *x *= scale * w);
            }
        },
    );
}

/// 1 / √(mean of x² + ε).
#[inline(always)]
pub fn inverse_root_mean_square(values: &[f32], epsilon: f64) -> f32 {
    let (chunks, rest) = values.as_chunks::<16>();
    let mut lanes = [0.0_f32; 16];
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += x * x);
    }
    let squares = lanes.iter().sum::<f32>() + rest.iter().map(|x| x * x).sum::<f32>();
    (f64::from(squares) / values.len() as f64 + epsilon).sqrt().recip() as f32
}
