//! Computes similarities and walks, in CPU time. The peer is cydifflib: `python3 benches/peers/matching.py`.

#![allow(missing_docs, reason = "criterion_group writes public items")]
#![allow(clippy::unwrap_used, reason = "a bench may panic")]

mod common;
#[path = "common/prose.rs"]
mod prose;

use std::fs::File;
use std::hint::black_box;
use std::path::Path;

use asap_kernels::gestalt::Gestalt;
use asap_kernels::matching::walk;
use common::CpuTime;
use criterion::{Criterion, criterion_group, criterion_main};
use prose::Prose;
use serde::Serialize;

const THRESHOLD: f64 = 0.6;

/// The inputs and results, which the peer reads and compares.
#[derive(Serialize)]
struct Inputs {
    /// Two steps of about 700 characters. In every other pair, one is an edit of the other.
    pairs: Vec<(String, String)>,
    similarities: Vec<f64>,
    /// 300 steps, and 80 of them in order, half of them edited.
    walks: Vec<(Vec<String>, Vec<String>)>,
    matched: Vec<Vec<usize>>,
    adversarial: Vec<(&'static str, String, String)>,
}

impl Inputs {
    fn generate() -> Self {
        let mut prose = Prose::new();
        let pairs: Vec<_> = (0..2_000).map(|pair| pair_of(&mut prose, pair % 2 == 0)).collect();
        let walks: Vec<_> = (0..20).map(|_| walk_of(&mut prose)).collect();
        let mut gestalt = Gestalt::new(false);
        let similarities = pairs.iter().map(|(a, b)| similarity(&mut gestalt, a, b)).collect();
        let matched = walks.iter().map(|(original, coarse)| matched(&mut gestalt, original, coarse)).collect();
        let adversarial = adversarial(&mut prose);
        Self { pairs, similarities, walks, matched, adversarial }
    }
}

fn pair_of(prose: &mut Prose, edited: bool) -> (String, String) {
    let step = prose.step(700);
    let other = if edited { prose.edited(&step, 10) } else { prose.step(700) };
    (step, other)
}

fn walk_of(prose: &mut Prose) -> (Vec<String>, Vec<String>) {
    let original: Vec<_> = (0..300)
        .map(|_| {
            let length = prose.log_uniform(40, 400);
            prose.step(length)
        })
        .collect();
    let kept = prose.subset(80, original.len());
    let coarse = kept
        .iter()
        .enumerate()
        .map(|(place, step)| if place % 2 == 0 { prose.edited(&original[*step], 10) } else { original[*step].clone() });
    let coarse = coarse.collect();
    (original, coarse)
}

/// Hard cases of various algorithms, of about 10,000 characters.
fn adversarial(prose: &mut Prose) -> Vec<(&'static str, String, String)> {
    let ramps = |lengths: &mut dyn Iterator<Item = usize>| lengths.map(|length| "a".repeat(length) + "b").collect();
    let step = prose.step(9_000);
    vec![
        ("equal letters, one less", "a".repeat(10_000), "a".repeat(9_999)),
        ("equal letters, one different", "a".repeat(5_000) + "b" + &"a".repeat(4_999), "a".repeat(10_000)),
        ("aa and ab", "a".repeat(10_000), "ab".repeat(5_000)),
        ("ab and aab", "ab".repeat(5_000), "aab".repeat(3_333)),
        ("two letters", prose.letters(10_000, 2), prose.letters(10_000, 2)),
        ("runs of each length", ramps(&mut (1..140)), ramps(&mut (1..140).rev())),
        ("each length of a", "a".repeat(9_900), ramps(&mut (1..140).rev())),
        ("9,000 characters, edited", step.clone(), prose.edited(&step, 10)),
        ("9,000 characters, unrelated", step, prose.step(9_000)),
    ]
}

fn similarity(gestalt: &mut Gestalt, a: &str, b: &str) -> f64 {
    gestalt.set_b(b);
    gestalt.ratio(a)
}

fn matched(gestalt: &mut Gestalt, original: &[String], coarse: &[String]) -> Vec<usize> {
    let original: Vec<_> = original.iter().map(String::as_str).collect();
    let coarse: Vec<_> = coarse.iter().map(String::as_str).collect();
    let walk = walk(gestalt, &original, &coarse, THRESHOLD);
    walk.matches.iter().map(|found| found.step).collect()
}

fn matching(criterion: &mut Criterion<CpuTime>) {
    let inputs = Inputs::generate();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("matching.json");
    serde_json::to_writer(File::create(path).unwrap(), &inputs).unwrap();

    let mut gestalt = Gestalt::new(false);
    let mut group = criterion.benchmark_group("matching");
    group.sample_size(10);
    group.bench_function("2000 similarities", |bencher| {
        bencher.iter(|| {
            for (a, b) in &inputs.pairs {
                black_box(similarity(&mut gestalt, a, b));
            }
        });
    });
    group.bench_function("2000 decisions", |bencher| {
        bencher.iter(|| {
            for (a, b) in &inputs.pairs {
                gestalt.set_b(b);
                black_box(gestalt.ratio_of_at_least(a, THRESHOLD));
            }
        });
    });
    group.bench_function("20 walks", |bencher| {
        bencher.iter(|| {
            for (original, coarse) in &inputs.walks {
                black_box(matched(&mut gestalt, original, coarse));
            }
        });
    });
    for (name, a, b) in &inputs.adversarial {
        group.bench_function(*name, |bencher| bencher.iter(|| similarity(&mut gestalt, a, b)));
    }
}

criterion_group! { name = benches; config = Criterion::default().with_measurement(CpuTime); targets = matching }
criterion_main!(benches);
