//! Verifies final answers of responses, in CPU time. The peer is math-verify: `python3 benches/peers/verify.py`.

#![allow(missing_docs, reason = "criterion_group writes public items")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench may panic and print")]

mod common;

use std::hint::black_box;
use std::path::Path;

use asap_verify::verify;
use common::CpuTime;
use criterion::{Criterion, criterion_group, criterion_main};
use serde::Deserialize;

/// A response, the expected answer, and whether the response is right by construction.
#[derive(Deserialize)]
struct Golden {
    gold: String,
    response: String,
    intended: bool,
}

fn answers(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("verify");
    group.sample_size(10);
    for name in ["answers", "answers_held_out"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/goldens/{name}.jsonl"));
        let text = std::fs::read_to_string(path).unwrap();
        let goldens: Vec<Golden> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let verdicts = || goldens.iter().map(|golden| verify(&golden.gold, &golden.response));
        let right = verdicts().zip(&goldens).filter(|(found, golden)| *found == golden.intended).count();
        let wrongly = verdicts().zip(&goldens).filter(|(found, golden)| *found && !golden.intended).count();
        println!("{name}: {} rows, {right} as intended, {wrongly} accepted wrongly", goldens.len());
        group.bench_function(name, |bencher| bencher.iter(|| verdicts().filter(|found| black_box(*found)).count()));
    }
}

criterion_group! { name = benches; config = Criterion::default().with_measurement(CpuTime); targets = answers }
criterion_main!(benches);
