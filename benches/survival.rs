//! Whether answers survive on a ladder of five shares of a chain. The peer is transformers with reused keys and values:
//! `python3 benches/peers/survives.py MODEL`, which writes the rows and runs this bench with their folder in
//! `ASAP_BENCH_FOLDER` and the model's in `ASAP_BENCH_MODEL`.
//!
//! Each case runs in its own process on one core and prints one line of JSON: CPU seconds and the results.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench may panic and print")]

use std::path::PathBuf;
use std::sync::Arc;

use asap_lm::memo::Memory;
use asap_lm::{Computed, Dtype, LoadedModel, QuestionAndSteps, Reading, Scored, Scorer, Tokenizer, Wanted};
use cpu_time::ProcessTime;
use serde::Deserialize;
use serde_json::json;

#[allow(dead_code, unused_imports, reason = "the peer provides the shapes, and memory is not compared")]
#[path = "common/processes.rs"]
mod processes;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The order of removal.
const CASES: [&str; 2] = ["prefix", "longest"];

#[derive(Deserialize)]
struct Row {
    question: String,
    answer: String,
    /// The kept steps of each rung, by order of removal.
    prefix: Vec<Vec<String>>,
    longest: Vec<Vec<String>>,
}

fn main() {
    let [folder, model] =
        ["ASAP_BENCH_FOLDER", "ASAP_BENCH_MODEL"].map(|name| PathBuf::from(std::env::var_os(name).unwrap()));
    let Some(case) = processes::case() else {
        return CASES.iter().for_each(|case| processes::run(case, 1, &[], true));
    };
    let rows = std::fs::read_to_string(folder.join("rows.jsonl")).unwrap();
    let rows: Vec<Row> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let memory = Arc::new(Memory::default());
    let tokenizer = Arc::new(Tokenizer::load(&model).unwrap());
    let loaded = Arc::new(LoadedModel::load(&model, Computed::Cpu(Dtype::F32), &tokenizer, &memory).unwrap());
    let scorer = Scorer::new(&model, Some("{question}\n"), tokenizer, loaded, &memory).unwrap();
    let begun = ProcessTime::now();
    let mut found = Vec::new();
    for row in &rows {
        let ladder = if case == "prefix" { &row.prefix } else { &row.longest };
        let readings = ladder.iter().map(|steps| {
            let steps = steps.iter().map(String::as_str).collect();
            let chain = QuestionAndSteps { question: row.question.as_str().into(), steps };
            Reading::Survival { chain, answer: &row.answer, states: true }
        });
        let prepared = scorer.prepare(&readings.collect::<Vec<_>>(), Wanted::AllTokens).unwrap();
        found.extend(futures::executor::block_on(scorer.score(prepared)).unwrap());
    }
    let cpu = begun.elapsed().as_secs_f64();
    let found = found.iter().map(|scored| match scored {
        Scored::Steps(scores) => {
            let survival = scores.survival.as_ref().unwrap();
            json!([survival.log_probability, survival.stated, survival.tokens_read, survival.tokens_written])
        }
        other => panic!("{other:?}"),
    });
    println!("{}", json!({ "case": case, "cpu": cpu, "found": found.collect::<serde_json::Value>() }));
}
