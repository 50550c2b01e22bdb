//! The order in which steps are dropped to fit a token budget.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

/// Returns Algorithm 2's order: the lowest score first, and the earlier step first on equal scores. A missing score and
/// NaN count as 0.
pub fn by_score(scores: &[Option<f64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // The sort is stable, and NaN is excluded, so the order is total.
    order.sort_by(|a, b| number(scores[*a]).partial_cmp(&number(scores[*b])).unwrap_or(std::cmp::Ordering::Equal));
    order
}

fn number(score: Option<f64>) -> f64 {
    score.filter(|score| !score.is_nan()).unwrap_or(0.0)
}

/// Returns a random order that depends only on steps and seed, on every machine and in every release. Each step draws a
/// key from ChaCha8 seeded by the SHA-256 of seed and steps. The lowest key comes first.
pub fn at_random(steps: &[&str], seed: i64) -> Vec<usize> {
    let mut keys = ChaCha8Rng::from_seed(content(steps, seed));
    let mut order: Vec<(u64, usize)> = (0..steps.len()).map(|step| (keys.next_u64(), step)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, step)| step).collect()
}

/// Returns a random number from 0 to below 1 that depends only on steps and seed: the first 53 bits of the SHA-256.
pub fn draw(steps: &[&str], seed: i64) -> f64 {
    let content = content(steps, seed);
    let bits = content[..8].iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

fn content(steps: &[&str], seed: i64) -> [u8; 32] {
    let mut content = Sha256::new();
    content.update(seed.to_le_bytes());
    for step in steps {
        content.update((step.len() as u64).to_le_bytes());
        content.update(step);
    }
    content.finalize().into()
}

/// Returns `ratio` of `tokens`, rounded down: the largest count whose quotient by `tokens` in Float64 is at most
/// `ratio`. So the ratio `budget / tokens` gives the budget back. A plain product with `tokens` may be off by one.
pub fn share(ratio: f64, tokens: usize) -> usize {
    let share = |count: usize| count as f64 / tokens as f64;
    let mut count = (ratio * tokens as f64) as usize;
    while count < tokens && share(count + 1) <= ratio {
        count += 1;
    }
    while count > 0 && share(count) > ratio {
        count -= 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chance_depends_on_seed_and_content_alone() {
        let steps = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(at_random(&steps, 42), at_random(&steps, 42));
        assert_ne!(at_random(&steps, 42), at_random(&steps, 43));
        assert_ne!(at_random(&["ab", "c", "d", "e", "f", "g"], 42), at_random(&["a", "bc", "d", "e", "f", "g"], 42));
        // Pinned: later releases must draw the same order.
        assert_eq!(at_random(&steps, 42), [3, 7, 1, 6, 4, 5, 2, 0]);
    }

    proptest! {
        #[test]
        fn every_step_is_in_a_random_order_once(steps in prop::collection::vec("[a-c]{0,2}", 0..20), seed: i64) {
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            let mut order = at_random(&steps, seed);
            order.sort_unstable();
            prop_assert_eq!(order, (0..steps.len()).collect::<Vec<_>>());
        }

        #[test]
        fn a_budget_survives_its_ratio(tokens in 1..10_000_000usize, part in 0.0..=1.0f64) {
            let budget = (part * tokens as f64) as usize;
            prop_assert_eq!(share(budget as f64 / tokens as f64, tokens), budget);
        }

        #[test]
        fn a_share_is_never_more_than_the_ratio(tokens in 1..10_000_000usize, ratio in 0.0..=1.0f64) {
            let count = share(ratio, tokens);
            prop_assert!(count as f64 / tokens as f64 <= ratio && (count + 1) as f64 / tokens as f64 > ratio);
        }
    }
}
