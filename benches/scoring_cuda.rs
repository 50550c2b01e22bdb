//! Scores chains on an NVIDIA GPU with the shape of R1-Distill-Qwen-7B and random weights: chains of 8,192 to 16,384
//! tokens, 40 positions each. The peer is transformers on the same GPU: `python3 benches/peers/scoring_cuda.py`.
//!
//! `cargo bench --package asap-lm --locked --features cuda --bench scoring_cuda` prints one line of JSON.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench may panic and print")]

use std::time::Instant;

use asap_lm::backend::{Backend, Packed, Target};
use asap_lm::config::ModelConfig;
use asap_lm::cuda::{CudaModel, Weights};
use candle_core::{DType, Device, Tensor};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

const SHAPE: &str = include_str!("common/seven_billion.json");
const LENGTHS: [usize; 5] = [8192, 10_240, 12_288, 14_336, 16_384];
const RUNS: usize = 3;
/// The number of random values that the weights repeat: a prime, so that no two rows of a matrix are equal.
const DRAWN: usize = 1_048_573;

fn main() {
    let config = ModelConfig::parse(SHAPE).unwrap();
    let vocabulary = config.vocab_size;
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut drawn = (0..DRAWN).map(|_| normal(&mut random)).collect::<Vec<f32>>().into_iter().cycle();
    let weights = Weights::build(&config, |name, shape| {
        let values: usize = shape.iter().product();
        let values = match shape.len() {
            2 => drawn.by_ref().take(values).collect(),
            _ if name.ends_with("bias") => vec![0.0; values],
            _ => vec![1.0; values],
        };
        let dtype = if shape.len() == 2 { DType::F16 } else { DType::F32 };
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?)
    })
    .unwrap();
    let mut model = CudaModel::new(config, weights).unwrap();
    let chains: Vec<(Vec<u32>, Vec<Target>)> = LENGTHS.iter().map(|length| chain(*length, vocabulary)).collect();
    let mut best = f64::MAX;
    for _ in 0..RUNS {
        let clock = Instant::now();
        for (ids, targets) in &chains {
            model.score(Packed { ids, lengths: &[ids.len()] }, targets, &|| true).unwrap();
        }
        best = best.min(clock.elapsed().as_secs_f64());
    }
    let tokens: usize = LENGTHS.iter().sum();
    println!(r#"{{"case": "cuda", "tokens": {tokens}, "seconds": {best:.4}}}"#);
}

/// Draws a weight as transformers does: normal, with a deviation of 0.02, approximated by the sum of twelve uniform
/// numbers.
fn normal(random: &mut ChaCha8Rng) -> f32 {
    let mut sum = 0.0;
    for _ in 0..3 {
        sum += random
            .next_u64()
            .to_le_bytes()
            .as_chunks::<2>()
            .0
            .iter()
            .map(|x| f32::from(u16::from_le_bytes(*x)))
            .sum::<f32>();
    }
    (sum / 65_536.0 - 6.0) * 0.02
}

/// Returns the tokens of a chain and 40 targets.
fn chain(length: usize, vocabulary: usize) -> (Vec<u32>, Vec<Target>) {
    let ids: Vec<u32> = (0..length).map(|i| (i * 7919 % vocabulary) as u32).collect();
    let rows = (1..=40).map(|i| i * (length - 2) / 40);
    let targets = rows.map(|row| Target { row: row as u32, id: ids[row + 1] }).collect();
    (ids, targets)
}
