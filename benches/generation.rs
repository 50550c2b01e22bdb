//! Generates answers of 64 tokens to questions, with the shape of Qwen2.5-0.5B and random weights. The peer is
//! transformers: `python3 benches/peers/generation.py`.
//!
//! Each case runs in its own process and prints one line of JSON. The models are kept in the folder that
//! `ASAP_BENCH_FOLDER` names.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench may panic and print")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use asap_lm::config::ModelConfig;
use asap_lm::generate::Generator;
use asap_lm::sampling::Sampling;
use asap_lm::train::{Precision, random, write_configs, write_weights};
use cpu_time::ProcessTime;

#[path = "common/processes.rs"]
mod processes;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FOLDER: &str = "ASAP_BENCH_FOLDER";
/// Tokens per answer.
const TOKENS: usize = 64;

/// Name, questions, cores, folder.
const CASES: [(&str, usize, usize, &str); 5] = [
    ("32", 32, 1, "f32"),
    ("1", 1, 1, "f32"),
    ("32-two-cores", 32, 2, "f32"),
    ("32-bf16", 32, 1, "bf16"),
    ("1-bf16", 1, 1, "bf16"),
];
/// A folder's name, its config's `dtype`, the type of its weights.
const FOLDERS: [(&str, &str, Precision); 2] =
    [("f32", "float32", Precision::F32), ("bf16", "bfloat16", Precision::Bf16)];

fn main() {
    let named = std::env::var(FOLDER);
    if let (Some(name), Ok(folder)) = (processes::case(), &named) {
        let (name, questions, _, own) = CASES.into_iter().find(|case| case.0 == name).unwrap();
        return measure(name, questions, &Path::new(folder).join(own));
    }
    let made = tempfile::tempdir().unwrap();
    let folder = named.map_or_else(|_| made.path().to_path_buf(), Into::into);
    for (name, dtype, precision) in FOLDERS {
        let folder = folder.join(name);
        if !folder.join("model.safetensors").exists() {
            make(&folder, dtype, precision);
        }
    }
    for (name, _, threads, _) in CASES {
        processes::run(name, threads, &[(FOLDER, folder.to_str().unwrap())], true);
    }
}

/// Writes a model with random weights and the tokenizer of the small model.
fn make(folder: &Path, dtype: &str, precision: Precision) {
    std::fs::create_dir_all(folder).unwrap();
    let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/model/tokenizer.json");
    std::fs::copy(tokenizer, folder.join("tokenizer.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(processes::HALF_A_BILLION).unwrap();
    config["dtype"] = dtype.into();
    write_configs(&config, folder).unwrap();
    let config = ModelConfig::parse(processes::HALF_A_BILLION).unwrap();
    write_weights(&random::weights(&config, 1).unwrap(), precision, folder).unwrap();
}

/// Answers the questions three times and prints the best time.
fn measure(name: &str, questions: usize, folder: &Path) {
    let mut generator = Generator::load(folder, &Arc::default()).unwrap();
    let sampling = Sampling { temperature: 0.0, top_p: 1.0, seed: 0, max_tokens: TOKENS, stop: Vec::new() };
    let (mut cpu, mut wall, mut tokens) = (f64::MAX, f64::MAX, 0);
    for _ in 0..3 {
        let (begun, clock) = (ProcessTime::now(), Instant::now());
        let asked =
            (0..questions).map(|i| format!("What is {i} + {}? Think step by step, then say the result.", i * i));
        tokens = 0;
        let each = |_, answer: asap_lm::Result<asap_lm::generate::Generated>| {
            tokens += answer.unwrap().tokens_out;
            true
        };
        generator.answer_all(asked, 1, sampling.clone(), each, &|| true);
        cpu = cpu.min(begun.elapsed().as_secs_f64());
        wall = wall.min(clock.elapsed().as_secs_f64());
    }
    let peak = processes::peak();
    println!(r#"{{"case": "{name}", "tokens": {tokens}, "cpu": {cpu:.3}, "wall": {wall:.3}, "peak": {peak}}}"#);
}
