//! Intervals and tests: every figure of an evaluation comes with its uncertainty.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::Serialize;

/// The quantile of the normal distribution for a two-sided interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;
const RESAMPLES: usize = 10_000;
const SEED: u64 = 42;

/// An estimate with its interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    pub(crate) fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The mean of a share per problem, from 0 to 1. With one response per problem the interval is Wilson's. With several,
/// responses to one problem depend on each other, so Wilson's interval is that of the effective number of responses:
/// the number whose independent responses would vary as much as the means of the problems do.
pub(crate) fn share(per_problem: &[f64]) -> Estimate {
    let n = per_problem.len() as f64;
    let value = mean(per_problem);
    let variance = per_problem.iter().map(|each| (each - value).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let is_single = per_problem.iter().all(|each| *each == 0.0 || *each == 1.0);
    let effective = if is_single || variance == 0.0 { n } else { n * value * (1.0 - value) / variance };
    wilson(value, effective)
}

/// Wilson's score interval of a share among `n` independent trials (Wilson 1927).
fn wilson(value: f64, n: f64) -> Estimate {
    let middle = value + Z * Z / (2.0 * n);
    let reach = Z * (value * (1.0 - value) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Estimate { value, low: ((middle - reach) / scale).max(0.0), high: ((middle + reach) / scale).min(1.0) }
}

/// The mean of differences of pairs. The interval is a percentile bootstrap over the pairs, with a fixed seed.
pub(crate) fn paired(differences: &[f64]) -> Estimate {
    let n = differences.len();
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn = (0..n).map(|_| differences[below(&mut random, n)]);
            drawn.sum::<f64>() / n as f64
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize];
    Estimate { value: mean(differences), low: at(0.025), high: at(0.975) }
}

fn below(random: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

/// McNemar's exact test: the probability that `wins` and `losses` differ at least this much if both are equally likely.
/// Problems on which the two agree do not count.
pub(crate) fn mcnemar(wins: u64, losses: u64) -> f64 {
    let (n, least) = (wins + losses, wins.min(losses));
    let ln_choose = |k: u64| (0..k).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum::<f64>();
    let half = (0..=least).map(|k| (ln_choose(k) - n as f64 * std::f64::consts::LN_2).exp()).sum::<f64>();
    (2.0 * half).min(1.0)
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The value below which a share of the values lies, by linear interpolation. 0 without values.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    values.sort_unstable_by(f64::total_cmp);
    let place = last as f64 * share;
    let (below, above) = (values[place as usize], values[(place.ceil() as usize).min(last)]);
    below + (above - below) * place.fract()
}
