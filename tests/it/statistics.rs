//! Intervals and tests of evaluations, next to published values.

use asap_eval::statistics::{holm, mcnemar, p_value, paired, quantile, share};

fn near(found: f64, expected: f64, by: f64) {
    assert!((found - expected).abs() < by, "{found}, expected {expected}");
}

#[test]
fn intervals_are_those_of_the_literature() {
    // Newcombe (1998): 81 of 263, and 15 of 148.
    let [a, b] = [(81, 263), (15, 148)]
        .map(|(yes, n)| share(&(0..n).map(|i| f64::from(u8::from(i < yes))).collect::<Vec<_>>(), n));
    near(a.low, 0.2553, 1e-4);
    near(a.high, 0.3662, 1e-4);
    near(b.low, 0.0624, 1e-4);
    near(b.high, 0.1605, 1e-4);
    // Two responses that always agree are as good as one.
    let single = share(&[1.0, 0.0, 1.0, 1.0], 8);
    assert_eq!(single, share(&[1.0, 0.0, 1.0, 1.0], 4));
    // Independent ones say more.
    let independent = share(&[0.5, 1.0, 0.5, 1.0], 8);
    assert_eq!(independent, share(&[0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 8));
    assert!(independent.high - independent.low < single.high - single.low);
}

#[test]
fn tests_are_exact() {
    near(mcnemar(10, 2), 0.038_574_22, 1e-8);
    near(mcnemar(0, 0), 1.0, 1e-12);
    near(mcnemar(600, 600), 1.0, 1e-9);
    let found = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        near(*found, expected, 1e-12);
    }
}

#[test]
fn pairs_are_resampled_by_a_fixed_seed() {
    let differences: Vec<f64> = (0..200).map(|i| f64::from(i % 7) - 2.0).collect();
    let found = paired(&differences);
    assert_eq!(found, paired(&differences));
    let error = 1.96 * 2.0 / 200.0_f64.sqrt();
    near(found.high - found.value, error, 0.05);
    assert!(found.excludes_zero() && p_value(&differences) < 0.01);
    assert!(p_value(&[1.0, -1.0, 1.0, -1.0]) > 0.5);
    near(quantile(&mut [3.0, 1.0, 2.0], 0.5), 2.0, 1e-12);
}
