//! Initial weights and row orders drawn from a seed.

use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Result;
use crate::model::config::ModelConfig;
use crate::model::weights::Weights;

const EMBEDDING: f64 = 0.02;

/// Draws initial weights: norms are 1, biases 0, and matrices normal with a variance that preserves that of their
/// input. Matrices that add to the residual stream are scaled down by the root of the number of additions, so that the
/// stream's variance does not grow with depth.
pub fn weights(config: &ModelConfig, seed: u64) -> Result<Weights> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let additions = 2.0 * config.num_hidden_layers as f64;
    Weights::build(config, |name, shape| {
        let count: usize = shape.iter().product();
        let values = match *shape {
            [_, inputs] => {
                let adds = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
                let embeds = name.ends_with("embed_tokens.weight") || name.ends_with("lm_head.weight");
                let kept = (inputs as f64).sqrt().recip();
                let deviation = if embeds { EMBEDDING } else { kept / if adds { additions.sqrt() } else { 1.0 } };
                (0..count).map(|_| (normal(&mut random) * deviation) as f32).collect()
            }
            _ if name.ends_with("norm.weight") => vec![1.0; count],
            _ => vec![0.0; count],
        };
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
    })
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// Returns the numbers 0 … `count` − 1 in an order drawn from the seed and the round.
pub fn order(count: usize, seed: u64, round: u64) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Each round has its own stream, so that it can be drawn without the earlier rounds.
    random.set_stream(round + 1);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.random_range(0..=last as u64) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden;

    #[test]
    fn a_seed_gives_the_same_weights_and_another_seed_gives_others() {
        let config = ModelConfig::load(&golden("qwen2")).unwrap();
        let numbers = |seed: u64, name: &str| -> Vec<f32> {
            let weights = weights(&config, seed).unwrap();
            let named = weights.named();
            let (_, tensor) = named.iter().find(|(own, _)| own == name).unwrap();
            tensor.flatten_all().unwrap().to_vec1().unwrap()
        };
        let gate = numbers(7, "model.layers.0.mlp.gate_proj.weight");
        assert_eq!(gate, numbers(7, "model.layers.0.mlp.gate_proj.weight"));
        assert_ne!(gate, numbers(8, "model.layers.0.mlp.gate_proj.weight"));
        assert_ne!(gate, numbers(7, "model.layers.1.mlp.gate_proj.weight"));
        let variance = gate.iter().map(|x| x * x).sum::<f32>() / gate.len() as f32;
        assert!((variance * config.hidden_size as f32 - 1.0).abs() < 0.05, "{variance}");
        assert!(numbers(7, "model.layers.0.self_attn.q_proj.bias").iter().all(|x| *x == 0.0));
        assert!(numbers(7, "model.norm.weight").iter().all(|x| *x == 1.0));
    }

    #[test]
    fn every_round_has_an_order_of_its_own() {
        let mut first = order(100, 42, 0);
        assert_eq!(first, order(100, 42, 0));
        assert_ne!(first, order(100, 42, 1));
        assert_ne!(first, order(100, 43, 0));
        first.sort_unstable();
        assert_eq!(first, (0..100).collect::<Vec<_>>());
        assert!(order(0, 1, 0).is_empty());
    }
}
