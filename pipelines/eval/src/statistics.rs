//! Intervals and tests: every figure of an evaluation comes with its uncertainty.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::Serialize;

/// The quantile of the normal distribution for a two-sided 95 % interval.
pub const Z: f64 = 1.959_963_984_540_054;
/// The evidence that a verdict calls a difference.
pub const SIGNIFICANT: f64 = 0.05;
const RESAMPLES: usize = 10_000;
const SEED: u64 = 42;

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// A difference with its sign and its interval, multiplied by `scale`, with this number of decimals.
    pub fn signed(&self, scale: f64, digits: usize) -> String {
        let [value, low, high] = [self.value, self.low, self.high].map(|each| scale * each);
        format!("{value:+.digits$} [{low:+.digits$}, {high:+.digits$}]")
    }
}

/// The mean of a share per problem, from 0 to 1. With one response per problem the interval is Wilson's. With several,
/// responses to one problem depend on each other, so Wilson's interval is that of the effective number of responses:
/// the number whose independent responses would vary as much as the means of the problems do.
///
/// `responses` is the number of all responses, which the effective number does not exceed.
pub fn share(per_problem: &[f64], responses: usize) -> Estimate {
    let n = per_problem.len() as f64;
    let value = mean(per_problem);
    let variance = per_problem.iter().map(|each| (each - value).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let is_single = per_problem.iter().all(|each| *each == 0.0 || *each == 1.0);
    let effective = if is_single || variance == 0.0 { n } else { n * value * (1.0 - value) / variance };
    wilson(value, effective.min(responses as f64))
}

/// Wilson's score interval of a share among `n` independent trials (Wilson 1927).
fn wilson(value: f64, n: f64) -> Estimate {
    let middle = value + Z * Z / (2.0 * n);
    let reach = Z * (value * (1.0 - value) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    // At the ends, rounding would leave a distance from 0 and 1.
    let low = if value <= 0.0 { 0.0 } else { ((middle - reach) / scale).max(0.0) };
    let high = if value >= 1.0 { 1.0 } else { ((middle + reach) / scale).min(1.0) };
    Estimate { value, low, high }
}

/// The mean of differences of pairs. The interval is a percentile bootstrap over the pairs, with a fixed seed.
pub fn paired(differences: &[f64]) -> Estimate {
    let means = resampled(differences);
    let at = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize];
    Estimate { value: mean(differences), low: at(0.025), high: at(0.975) }
}

/// The two-sided bootstrap p-value of a mean difference of 0, from the same resamples as [`paired`], with the usual
/// correction of +1. It is at least that of a sign test whose differences have all one sign: few questions show nothing,
/// however equal they are.
pub fn p_value(differences: &[f64]) -> f64 {
    let means = resampled(differences);
    let least = 2.0_f64.powi(1 - differences.len().min(64) as i32);
    let below = means.iter().filter(|mean| **mean <= 0.0).count();
    let above = means.iter().filter(|mean| **mean >= 0.0).count();
    (2.0 * (below.min(above) + 1) as f64 / (RESAMPLES + 1) as f64).max(least).min(1.0)
}

/// Says which differences from random steps and from a random block are significant, by their adjusted p-values.
pub fn against_controls(over: [Option<Estimate>; 2], p_values: &[f64]) -> String {
    let shown = over.into_iter().zip(p_values).zip(["random steps", "a random block"]);
    let shown = shown.filter(|((_, p), _)| **p < SIGNIFICANT).filter_map(|((over, _), of)| {
        let word = if over?.value > 0.0 { "better than" } else { "worse than" };
        Some((word, of))
    });
    match shown.collect::<Vec<_>>()[..] {
        [] => "no difference from chance is shown".to_string(),
        [(a, _), (b, _)] if a == b => format!("{a} both"),
        ref shown => shown.iter().map(|(word, of)| format!("{word} {of}")).collect::<Vec<_>>().join(", "),
    }
}

/// Adjusts p-values for their number, so that 5 % is the chance of any false difference (Holm 1979).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_unstable_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let (mut adjusted, mut least) = (vec![1.0; p_values.len()], 0.0_f64);
    for (rank, &place) in order.iter().enumerate() {
        least = least.max((p_values[place] * (p_values.len() - rank) as f64).min(1.0));
        adjusted[place] = least;
    }
    adjusted
}

/// Means of resamples with replacement, in ascending order. Zeros without values.
fn resampled(values: &[f64]) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut drawn = || (0..values.len()).map(|_| values[below(&mut random, values.len())]).sum::<f64>();
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| drawn() / values.len().max(1) as f64).collect();
    means.sort_unstable_by(f64::total_cmp);
    means
}

fn below(random: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

/// McNemar's exact test: the probability that `wins` and `losses` differ at least this much if both are equally likely.
/// Problems on which the two agree do not count.
pub fn mcnemar(wins: u64, losses: u64) -> f64 {
    let (n, least) = (wins + losses, wins.min(losses));
    let ln_choose = |k: u64| (0..k).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum::<f64>();
    let half = (0..=least).map(|k| (ln_choose(k) - n as f64 * std::f64::consts::LN_2).exp()).sum::<f64>();
    (2.0 * half).min(1.0)
}

pub fn mean(values: &[f64]) -> f64 {
    // The sum of no values is -0.
    (values.iter().sum::<f64>() + 0.0) / values.len().max(1) as f64
}

/// The value below which a share of the values lies, by linear interpolation. 0 without values.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    values.sort_unstable_by(f64::total_cmp);
    let place = last as f64 * share;
    let (below, above) = (values[place as usize], values[(place.ceil() as usize).min(last)]);
    below + (above - below) * place.fract()
}
