//! The baseline methods: scores of one forward pass, the attribution of steps to an answer, LLMLingua-2. The peers are
//! transformers and llmlingua: `python3 benches/peers/baselines.py`, which writes the models and rows and runs this
//! bench with their folder in `ASAP_BENCH_FOLDER`.
//!
//! Each case runs in its own process on one core and prints one line of JSON: CPU seconds and the results.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench may panic and print")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use asap_lm::compressor::{Compressor, Options};
use asap_lm::memo::Memory;
use asap_lm::{Computed, Dtype, Left, LoadedModel, Over, QuestionAndSteps, Reading, Scored, Scorer, Tokenizer, Wanted};
use cpu_time::ProcessTime;
use serde::Deserialize;
use serde_json::json;

#[allow(dead_code, unused_imports, reason = "the peer provides the shapes, and memory is not compared")]
#[path = "common/processes.rs"]
mod processes;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The method, and the type of its computations.
const CASES: [&str; 5] = ["pass f32", "pass bf16", "attribution f32", "attribution bf16", "llmlingua2"];

#[derive(Deserialize)]
struct Row {
    question: String,
    steps: Vec<String>,
    answer: String,
}

fn main() {
    let folder = PathBuf::from(std::env::var_os("ASAP_BENCH_FOLDER").unwrap());
    let Some(case) = processes::case() else {
        return CASES.iter().for_each(|case| processes::run(case, 1, &[], true));
    };
    let rows = std::fs::read_to_string(folder.join("rows.jsonl")).unwrap();
    let rows: Vec<Row> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (cpu, found) = match case.split_once(' ') {
        Some((what, dtype)) => {
            score(&folder, &rows, what == "attribution", if dtype == "f32" { Dtype::F32 } else { Dtype::Bf16 })
        }
        None => compress(&folder, &rows),
    };
    println!("{}", json!({ "case": case, "cpu": cpu, "found": found }));
}

/// Returns perplexities and entropies of all steps, or the nats of the answer after the chain and after each chain
/// without one of its steps.
fn score(folder: &Path, rows: &[Row], is_attribution: bool, dtype: Dtype) -> (f64, serde_json::Value) {
    let model = folder.join("model");
    let memory = Arc::new(Memory::default());
    let tokenizer = Arc::new(Tokenizer::load(&model).unwrap());
    let loaded = Arc::new(LoadedModel::load(&model, Computed::Cpu(dtype), &tokenizer, &memory).unwrap());
    let scorer = Scorer::new(&model, Some("{question}\n"), tokenizer, loaded, &memory).unwrap();
    let readings = rows.iter().map(|Row { question, steps, answer }| {
        let chain =
            QuestionAndSteps { question: question.as_str().into(), steps: steps.iter().map(String::as_str).collect() };
        match is_attribution {
            true => Reading::Answer { chain, answer, left: Left::AllButOne, over: Over::Answer },
            false => Reading::Chain(chain),
        }
    });
    let readings: Vec<Reading> = readings.collect();
    let begun = ProcessTime::now();
    let prepared = scorer.prepare(&readings, Wanted::AllTokens).unwrap();
    let scored = futures::executor::block_on(scorer.score(prepared)).unwrap();
    let cpu = begun.elapsed().as_secs_f64();
    let found = scored.iter().map(|scored| match scored {
        Scored::Steps(scores) if is_attribution => json!(scores.answers),
        Scored::Steps(scores) => json!([scores.perplexity, scores.entropy]),
        other => panic!("{other:?}"),
    });
    (cpu, found.collect())
}

/// Compresses the chains to half of their words. Each word counts as one token.
fn compress(folder: &Path, rows: &[Row]) -> (f64, serde_json::Value) {
    let compressor = Compressor::load(&folder.join("encoder")).unwrap();
    let texts: Vec<String> = rows.iter().map(|row| row.steps.join("\n\n")).collect();
    let begun = ProcessTime::now();
    let compress = |text: &String| compressor.compress(text, 0.5, &Options::default(), &|_| Ok(1)).unwrap();
    let compressed: Vec<String> = texts.iter().map(compress).collect();
    (begun.elapsed().as_secs_f64(), json!(compressed))
}
