//! Scores chains with the shape of Qwen2.5-0.5B and random weights. The peers are transformers
//! and candle: `python3 benches/peers/scoring.py`.
//!
//! Each case runs in its own process and prints one line of JSON. `cargo bench --package asap-lm --locked --bench
//! scoring` runs the cases of the peer. Names of cases after `--` select other cases.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench may panic and print")]

use std::time::Instant;

use asap_lm::backend::{Packed, Target};
use asap_lm::config::ModelConfig;
use asap_lm::decoder::Decoder;
use asap_lm::ops::{self, Bf16Matrix, Cores, F32Matrix, Pool, Projection, Sees, Sequence};
use cpu_time::ProcessTime;
use random::Random;

#[path = "common/processes.rs"]
mod processes;
#[path = "common/random.rs"]
mod random;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Case {
    name: &'static str,
    bf16: bool,
    threads: usize,
    layers: usize,
    lengths: &'static [usize],
    runs: usize,
}

const MIXED: &[usize] = &[200, 450, 8000, 700, 1000, 300, 3000, 1500, 234, 1000];
const EQUAL: &[usize] = &[2048; 8];

const CASES: [Case; 12] = [
    Case { name: "f32", bf16: false, threads: 1, layers: 24, lengths: &[2048], runs: 3 },
    Case { name: "bf16", bf16: true, threads: 1, layers: 24, lengths: &[2048], runs: 3 },
    Case { name: "f32-16384", bf16: false, threads: 1, layers: 4, lengths: &[16_384], runs: 2 },
    Case { name: "bf16-16384", bf16: true, threads: 1, layers: 4, lengths: &[16_384], runs: 2 },
    Case { name: "f32-two-cores", bf16: false, threads: 2, layers: 24, lengths: &[2048], runs: 3 },
    Case { name: "bf16-two-cores", bf16: true, threads: 2, layers: 24, lengths: &[2048], runs: 3 },
    Case { name: "f32-equal", bf16: false, threads: 1, layers: 2, lengths: EQUAL, runs: 3 },
    Case { name: "f32-mixed", bf16: false, threads: 1, layers: 2, lengths: MIXED, runs: 3 },
    Case { name: "bf16-equal", bf16: true, threads: 1, layers: 2, lengths: EQUAL, runs: 3 },
    Case { name: "bf16-mixed", bf16: true, threads: 1, layers: 2, lengths: MIXED, runs: 3 },
    Case { name: "f32-long", bf16: false, threads: 2, layers: 24, lengths: &[32_768], runs: 1 },
    Case { name: "bf16-long", bf16: true, threads: 2, layers: 24, lengths: &[32_768], runs: 1 },
];

fn main() {
    if let Some(name) = processes::case() {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        return if case.bf16 { case.measure::<Bf16Matrix>() } else { case.measure::<F32Matrix>() };
    }
    for case in &CASES {
        processes::run(case.name, case.threads, case.runs > 1);
    }
}

impl Case {
    /// Scores 40 positions and prints the best run. Attention alone is measured separately.
    fn measure<M: Projection>(&self) {
        let config =
            ModelConfig { num_hidden_layers: self.layers, ..ModelConfig::parse(processes::HALF_A_BILLION).unwrap() };
        let mut random = Random(1);
        let weights = random.weights::<M>(&config);
        let decoder = Decoder::new(config, weights);
        let tokens: usize = self.lengths.iter().sum();
        let (ids, asked) = random::chain(tokens, decoder.config.vocab_size);
        let (mut cpu, mut wall, mut surprisal) = (f64::MAX, f64::MAX, vec![]);
        for _ in 0..self.runs {
            surprisal.clear();
            let (begun, clock) = (ProcessTime::now(), Instant::now());
            decoder
                .hidden_by_pass(
                    Packed { ids: &ids, lengths: self.lengths },
                    Some(&asked),
                    &|| true,
                    |places, hidden| {
                        let own = asked[places].iter().enumerate();
                        let own = own.map(|(place, row)| Target { row: place as u32, id: ids[*row as usize + 1] });
                        let scores = decoder.score(&hidden, &own.collect::<Vec<_>>())?;
                        surprisal.extend(scores.iter().map(|score| score.surprisal));
                        Ok(())
                    },
                )
                .unwrap();
            cpu = cpu.min(begun.elapsed().as_secs_f64());
            wall = wall.min(clock.elapsed().as_secs_f64());
        }
        let (name, peak) = (self.name, processes::peak());
        let attention = if self.lengths.len() > 1 { self.attention(&decoder, &mut random) } else { 0.0 };
        println!(
            r#"{{"case": "{name}", "tokens": {tokens}, "cpu": {cpu:.3}, "wall": {wall:.3}, "attention": {attention:.3}, "peak": {peak}, "surprisal": {surprisal:?}}}"#
        );
    }

    /// Returns the CPU seconds of the attention of all layers.
    fn attention<M: Projection>(&self, decoder: &Decoder<M>, random: &mut Random) -> f64 {
        let heads = decoder.config.heads();
        let pool = Pool::default();
        let mut best = f64::MAX;
        for _ in 0..self.runs {
            let mut sum = 0.0;
            for length in self.lengths {
                let [q, k, v] = [heads.query, heads.key, heads.key].map(|heads| random.values(length * heads * 64));
                let (mut gathered, mut sums) = (q.clone(), vec![0.0; length * heads.query]);
                let chain = Sequence { earlier: 0, tokens: *length };
                let begun = ProcessTime::now();
                for _ in 0..self.layers {
                    let (chains, results) = ((&[chain][..], Sees::Earlier), [&mut *gathered, &mut *sums]);
                    ops::attend([&q, &k, &v], heads, chains, (Cores::All, M::attention()), &pool, results).unwrap();
                }
                sum += begun.elapsed().as_secs_f64();
            }
            best = best.min(sum);
        }
        best
    }
}
