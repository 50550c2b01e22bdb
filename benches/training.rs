//! Runs training steps on random weights: 2.7 million parameters, and the shape of Qwen2.5-0.5B. The peers
//! are transformers and candle: `python3 benches/peers/training.py`.
//!
//! Each case runs in its own process and prints one line of JSON. `cargo bench --package asap-lm --locked --bench
//! training` runs the cases of the peer. Names of cases after `--` select other cases.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench may panic and print")]

use std::time::Instant;

use asap_lm::config::ModelConfig;
use asap_lm::decoder::Decoder;
use asap_lm::train::{Activations, AdamW, AdamWConfig, Batch, Example, Gradient, Keep, random, state_bytes};
use cpu_time::ProcessTime;

#[path = "common/processes.rs"]
mod processes;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The shape of a model with 2.7 million parameters.
const SMALL: &str = include_str!("common/small.json");

struct Case {
    name: &'static str,
    shape: &'static str,
    keep: Keep,
    threads: usize,
    chains: usize,
    tokens: usize,
    steps: usize,
    /// Whether the peer's script runs it.
    of_peer: bool,
}

const CASES: [Case; 8] = [
    Case::small("16x256", 16, 256),
    Case::small("64x54", 64, 54),
    Case { threads: 2, ..Case::small("16x256-two-cores", 16, 256) },
    Case::large("0.5b", Keep::All),
    Case { of_peer: false, ..Case::large("0.5b-attention", Keep::Attention) },
    Case { of_peer: false, ..Case::large("0.5b-inputs", Keep::Inputs) },
    Case { of_peer: false, threads: 2, ..Case::large("0.5b-two-cores", Keep::All) },
    Case { of_peer: false, threads: 2, tokens: 16_384, steps: 1, ..Case::large("0.5b-16k-inputs", Keep::Inputs) },
];

fn main() {
    if let Some(name) = processes::case() {
        return CASES.iter().find(|case| case.name == name).unwrap().measure();
    }
    for case in &CASES {
        processes::run(case.name, case.threads, case.of_peer);
    }
}

impl Case {
    const fn small(name: &'static str, chains: usize, tokens: usize) -> Self {
        Self { name, shape: SMALL, keep: Keep::All, threads: 1, chains, tokens, steps: 5, of_peer: true }
    }

    const fn large(name: &'static str, keep: Keep) -> Self {
        Self {
            name,
            shape: processes::HALF_A_BILLION,
            keep,
            threads: 1,
            chains: 1,
            tokens: 2048,
            steps: 2,
            of_peer: true,
        }
    }

    /// Makes one step to warm up and `steps` more, and prints the best of those.
    fn measure(&self) {
        let config = ModelConfig::parse(self.shape).unwrap();
        let expected = state_bytes(&config) + self.keep.bytes(&config, self.chains * self.tokens);
        let weights = random::weights(&config, 1).unwrap();
        let decoder = Decoder::new(config, weights);
        let token = |i: usize| (i * 7919 % decoder.config.vocab_size) as u32;
        let example = |chain: usize| {
            let first = chain * (self.tokens + 1);
            Example::new((first..first + self.tokens + 1).map(token).collect(), 1)
        };
        let examples: Vec<Example> = (0..self.chains).map(example).collect();
        let batch = Batch::new(&examples);
        let constants = AdamWConfig { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, clip: 1.0 };
        let mut optimizer = AdamW::new(constants, &decoder.weights);
        let mut sum = Gradient::zeros(&decoder.weights);
        let mut activations = Activations::new(self.keep);
        let (mut cpu, mut wall, mut losses) = (f64::MAX, f64::MAX, vec![]);
        for step in 0..=self.steps {
            let (begun, clock) = (ProcessTime::now(), Instant::now());
            sum.clear();
            let tokens = batch.targets.len() as f32;
            let nats = activations.gradient(&decoder, &batch, 1.0 / tokens, &mut sum, &|| true).unwrap();
            losses.push(nats / f64::from(tokens));
            let norm = sum.norm();
            optimizer.step(&decoder.weights, &sum, norm, 1e-4).unwrap();
            // The first step allocates the memory.
            if step > 0 {
                cpu = cpu.min(begun.elapsed().as_secs_f64());
                wall = wall.min(clock.elapsed().as_secs_f64());
            }
        }
        let (name, tokens, peak) = (self.name, batch.ids.len(), processes::peak());
        println!(
            r#"{{"case": "{name}", "tokens": {tokens}, "cpu": {cpu:.3}, "wall": {wall:.3}, "peak": {peak}, "expected": {expected}, "losses": {losses:?}}}"#
        );
    }
}
