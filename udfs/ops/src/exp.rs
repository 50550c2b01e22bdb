//! The exponential function, written so that loops over it vectorize.

use asap_kernels::vectorized;
use pulp::Simd;

/// Independent partial sums per loop, so that additions do not wait for each other.
const LANES: usize = 16;

// Adding 1.5 · 2²³ rounds to a whole number, which ends up in the low bits of the sum.
const ROUND: f32 = 12_582_912.0;
// ln 2 split in two: the first part has few bits, so that n · LN2_HIGH is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
const LEAST: f32 = -87.0;
/// Taylor's polynomial from the highest power down to x², with coefficients fitted on ±ln 2 / 2 (Cephes).
const POWERS: [f32; 6] = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// eˣ within 2 units in the last place for −87 ≤ x ≤ 88; `x` outside is clamped.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let p = POWERS[1..].iter().fold(POWERS[0], |p, power| p * r + power);
    let p = p * r * r + r + 1.0;
    f32::from_bits(p.to_bits().wrapping_add(rounded.to_bits() << 23))
}

/// [`exp`] of a vector with numbers up to 0. It uses multiply-add instructions, which the compiler does not put in place of
/// a product and a sum.
#[inline(always)]
fn exp_below<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let [least, round, one] = [LEAST, ROUND, 1.0].map(|x| simd.splat_f32s(x));
    // A maximum might lose NaN.
    let x = simd.select_f32s(simd.less_than_f32s(x, least), least, x);
    let rounded = simd.mul_add_e_f32s(x, simd.splat_f32s(std::f32::consts::LOG2_E), round);
    let n = simd.sub_f32s(rounded, round);
    let r = simd.negate_mul_add_e_f32s(n, simd.splat_f32s(LN2_HIGH), x);
    let r = simd.negate_mul_add_e_f32s(n, simd.splat_f32s(LN2_LOW), r);
    let mut p = simd.splat_f32s(POWERS[0]);
    for power in &POWERS[1..] {
        p = simd.mul_add_e_f32s(p, r, simd.splat_f32s(*power));
    }
    let p = simd.mul_add_e_f32s(p, simd.mul_f32s(r, r), simd.add_f32s(r, one));
    let power = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(rounded), simd.splat_u32s(23));
    simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(p), power))
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

/// The largest number of a row.
#[inline(always)]
pub(super) fn max_of_row<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let (whole, rest) = S::as_simd_f32s(row);
    let highest = whole.iter().fold(simd.splat_f32s(f32::NEG_INFINITY), |highest, x| simd.max_f32s(highest, *x));
    rest.iter().fold(simd.reduce_max_f32s(highest), |highest, x| if *x > highest { *x } else { highest })
}

/// Replaces each number of a row, all of which are up to `max`, by eˣ⁻ᵐᵃˣ. Returns their sum.
#[inline(always)]
pub(super) fn exp_in_place<S: Simd>(simd: S, row: &mut [f32], max: f32) -> f32 {
    let max = simd.splat_f32s(max);
    let (whole, rest) = S::as_mut_simd_f32s(row);
    let mut sum = simd.splat_f32s(0.0);
    for x in whole {
        *x = exp_below(simd, simd.sub_f32s(*x, max));
        sum = simd.add_f32s(sum, *x);
    }
    if !rest.is_empty() {
        simd.partial_store_f32s(rest, exp_below(simd, simd.sub_f32s(simd.partial_load_f32s(rest), max)));
        sum = simd.add_f32s(sum, simd.partial_load_f32s(rest));
    }
    simd.reduce_sum_f32s(sum)
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
    use pulp::{Arch, WithSimd};

    struct Row<'a>(&'a mut [f32]);

    impl WithSimd for Row<'_> {
        type Output = [f32; 2];

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> [f32; 2] {
            let max = max_of_row(simd, self.0);
            [max, exp_in_place(simd, self.0, max)]
        }
    }

    proptest! {
        #[test]
        fn exp_is_exact_to_two_units_in_the_last_place(x in -87.0_f32..88.0) {
            let exact = f64::from(x).exp();
            prop_assert!((f64::from(exp(x)) - exact).abs() <= exact * 2.4e-7, "{x}: {} against {exact}", exp(x));
        }

        #[test]
        fn rows_agree_with_the_definition(row in prop::collection::vec(-100.0_f32..30.0, 1..100)) {
            let (mut found, highest) = (row.clone(), row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let [max, sum] = Arch::new().dispatch(Row(&mut found));
            prop_assert_eq!(max, highest);
            for (found, x) in found.iter().zip(&row) {
                let exact = f64::from((x - highest).max(LEAST)).exp();
                prop_assert!((f64::from(*found) - exact).abs() <= exact * 2.4e-7, "{x}: {found} against {exact}");
            }
            prop_assert!((f64::from(sum) - found.iter().map(|x| f64::from(*x)).sum::<f64>()).abs() < 1e-5 * f64::from(sum));
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
        let mut row = [0.0, f32::NEG_INFINITY, f32::NAN];
        assert!(Arch::new().dispatch(Row(&mut row))[1].is_nan());
        assert!(row[1] < 1e-37 && row[2].is_nan());
    }
}
