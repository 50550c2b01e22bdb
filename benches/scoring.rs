//! Scores chains with the shape of Qwen2.5-0.5B and random weights. The peers are transformers
//! and candle: `python3 benches/peers/scoring.py`.
//!
//! Each case runs in its own process and prints one line of JSON. `cargo bench --package asap-lm --locked --bench
//! scoring` runs the cases of the peer. Names of cases after `--` select other cases. `f32-ladder` and `bf16-ladder` read
//! the folder that `python3 benches/peers/ladder.py` makes.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench may panic and print")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use asap_kernels::memo::Memory;
use asap_lm::backend::{Packed, Target};
use asap_lm::config::ModelConfig;
use asap_lm::decoder::Decoder;
use asap_lm::ops::{self, Bf16Matrix, Cores, F32Matrix, Pool, Projection, Sees, Sequence};
use asap_lm::{Computed, Dtype, LoadedModel, QuestionAndSteps, Reading, Scored, Scorer, Tokenizer, Wanted};
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

const LADDERS: [(&str, Dtype); 2] = [("f32-ladder", Dtype::F32), ("bf16-ladder", Dtype::Bf16)];

fn main() {
    if let Some(name) = processes::case() {
        if let Some((_, dtype)) = LADDERS.iter().find(|(ladder, _)| *ladder == name) {
            return climb(&name, *dtype);
        }
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        return if case.bf16 { case.measure::<Bf16Matrix>() } else { case.measure::<F32Matrix>() };
    }
    for case in &CASES {
        processes::run(case.name, case.threads, case.runs > 1);
    }
    for (name, _) in LADDERS {
        processes::run(name, 1, false);
    }
}

/// An answer after some steps of a chain.
#[derive(serde::Deserialize)]
struct Check {
    question: String,
    steps: Vec<String>,
    answer: String,
}

/// Scores the answers after the prunings of some chains, rung by rung, as `cot_shortest_surviving` does. Prints the
/// mean ln P of the tokens of each answer.
fn climb(name: &str, dtype: Dtype) {
    // The folder that ladder.py makes.
    let folder = std::env::var("ASAP_BENCH_LADDER").unwrap();
    let folder = Path::new(&folder).join(dtype.name());
    let memory = Arc::<Memory>::default();
    let tokenizer = Arc::new(Tokenizer::load(&folder).unwrap());
    let model = LoadedModel::load(&folder, Computed::Cpu(dtype), &tokenizer, &memory).unwrap();
    let scorer = Scorer::new(&folder, Some("{question}"), tokenizer, Arc::new(model), &memory).unwrap();
    let rungs = std::fs::read_to_string(folder.join("../rungs.jsonl")).unwrap();
    let rungs: Vec<Vec<Check>> = rungs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (begun, mut found) = (ProcessTime::now(), vec![]);
    for checks in &rungs {
        let readings: Vec<_> = checks
            .iter()
            .map(|Check { question, steps, answer }| {
                let steps = steps.iter().map(String::as_str).collect();
                let chain = QuestionAndSteps::new(question.as_str().into(), steps);
                Reading::Survival { chain, answer, states: false }
            })
            .collect();
        let prepared = scorer.prepare(&readings, Wanted::AllTokens).unwrap();
        for scored in futures::executor::block_on(scorer.score(prepared)).unwrap() {
            let Scored::Steps(scores) = scored else { panic!("{scored:?}") };
            found.push(scores.survival.as_ref().unwrap().log_probability);
        }
    }
    let (cpu, peak) = (begun.elapsed().as_secs_f64(), processes::peak());
    println!(r#"{{"case": "{name}", "cpu": {cpu:.3}, "peak": {peak}, "log_probability": {found:?}}}"#);
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
