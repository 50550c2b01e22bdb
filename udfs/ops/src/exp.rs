//! The exponential function, written so that loops over it vectorize.

use asap_kernels::vectorized;

/// Independent partial sums per loop, so that additions do not wait for each other.
const LANES: usize = 16;

/// eˣ within 2 units in the last place for −87 ≤ x ≤ 88; `x` outside is clamped.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5 · 2²³ rounds to a whole number, which ends up in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 split in two: the first part has few bits, so that n · LN2_HIGH is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    // Taylor's polynomial with coefficients fitted on ±ln 2 / 2 (Cephes).
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_2e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    p = p * r * r + r + 1.0;
    f32::from_bits(p.to_bits().wrapping_add(rounded.to_bits() << 23))
}

#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, *x);
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, b| larger(a, *b))
}

#[inline(always)]
pub(super) fn exp_in_place(values: &mut [f32], max: f32) -> f32 {
    let (chunks, rest) = values.as_chunks_mut::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *x = exp(*x - max);
            *sum += *x;
        }
    }
    for (sum, x) in sums.iter_mut().zip(rest) {
        *x = exp(*x - max);
        *sum += *x;
    }
    sums.iter().sum()
}

/// The number of logits above `own`.
pub fn count_above(logits: &[f32], own: f32) -> u32 {
    vectorized!(logits.iter().map(|logit| u32::from(*logit > own)).sum())
}

/// Σ eˣ over logits, with the sums for their entropy.
#[derive(Debug, Clone, Copy)]
pub struct SumOfExponentials {
    pub max: f32,
    /// Σ exp(x − max).
    pub sum: f64,
    /// Σ exp(x − max) · (x − max).
    pub weighted: f64,
}

impl SumOfExponentials {
    pub fn new(logits: &[f32]) -> Self {
        // Partial sums of 1024 values keep their precision in f32; sums across parts need f64.
        const PART: usize = 1024;
        vectorized!({
            let max = max(logits);
            let (mut sum, mut weighted) = (0.0_f64, 0.0_f64);
            for part in logits.chunks(PART) {
                let (mut sums, mut weighted_sums) = ([0.0_f32; LANES], [0.0_f32; LANES]);
                for chunk in part.chunks(LANES) {
                    for ((sum, weighted), x) in sums.iter_mut().zip(&mut weighted_sums).zip(chunk) {
                        let below = x - max;
                        let e = exp(below);
                        *sum += e;
                        *weighted += e * below;
                    }
                }
                sum += f64::from(sums.iter().sum::<f32>());
                weighted += f64::from(weighted_sums.iter().sum::<f32>());
            }
            Self { max, sum, weighted }
        })
    }

    pub fn merge(self, other: Self) -> Self {
        let max = if self.max > other.max { self.max } else { other.max };
        let mut merged = Self { max, sum: 0.0, weighted: 0.0 };
        for part in [self, other] {
            let below = f64::from(part.max) - f64::from(max);
            merged.sum += below.exp() * part.sum;
            merged.weighted += below.exp() * (part.weighted + below * part.sum);
        }
        merged
    }

    /// Returns the log-sum-exp and the entropy of the softmax distribution, both in nats.
    pub fn finish(self) -> (f32, f32) {
        let log_sum = self.sum.ln();
        ((f64::from(self.max) + log_sum) as f32, (log_sum - self.weighted / self.sum) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn exp_is_exact_to_two_units_in_the_last_place(x in -87.0_f32..88.0) {
            let exact = f64::from(x).exp();
            prop_assert!((f64::from(exp(x)) - exact).abs() <= exact * 2.4e-7, "{x}: {} against {exact}", exp(x));
        }

        #[test]
        fn the_entropy_and_the_normaliser_agree_with_f64(
            logits in prop::collection::vec(-30.0_f32..30.0, 1..3000), part in 1_usize..3000,
        ) {
            let sum: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
            let parts = logits.chunks(part).map(SumOfExponentials::new);
            let (log_sum, entropy) = parts.reduce(SumOfExponentials::merge).unwrap().finish();
            prop_assert!((f64::from(log_sum) - sum.ln()).abs() < 1e-5);
            let terms = logits.iter().map(|x| f64::from(*x)).map(|x| -(x.exp() / sum) * (x - sum.ln()));
            let exact: f64 = terms.sum();
            prop_assert!((f64::from(entropy) - exact).abs() < 1e-5, "{entropy} against {exact}");
        }
    }

    #[test]
    fn far_values_stay_finite() {
        assert!(exp(-1e30) > 0.0 && exp(-1e30) < 1e-37);
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
        assert!(exp(1e30).is_finite());
    }
}
