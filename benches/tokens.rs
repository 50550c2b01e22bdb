//! Tokenizes chains with and without offsets, and prunes them to a quarter of their tokens, in CPU time. The peer is
//! the Python package `tokenizers`, built on the same crate: `python3 benches/peers/tokens.py`. `CORPUS` names other
//! traces than the sample's, separated by spaces.

#![allow(missing_docs, reason = "criterion_group writes public items")]
#![allow(clippy::unwrap_used, reason = "a bench may panic")]

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::path::Path;

use asap_kernels::budget::by_score;
use asap_kernels::steps::steps;
use asap_llm::Llm;
use asap_lm::{Joined, Tokenizer};
use asap_pipelines::session::session;
use asap_udfs::Settings;
use common::CpuTime;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use serde::Serialize;

const SAMPLE: &str = "data/sample/openr1-math.parquet data/sample/codeforces-cots.parquet";
const MODELS: [&str; 3] = ["tests/goldens/qwen2", "tests/goldens/llama", "data/model"];

/// The number of pruned chains. Few, because the peer is slow.
const REFINED: usize = 100;

/// The inputs and results, which the peer reads and compares.
#[derive(Serialize)]
struct Inputs {
    chains: Vec<String>,
    /// By the model's folder, the token ids of each chain.
    ids: BTreeMap<&'static str, Vec<Vec<u32>>>,
    /// The steps of the first chains.
    steps: Vec<Vec<String>>,
    /// By the model's folder, the remaining steps of each chain.
    kept: BTreeMap<&'static str, Vec<Vec<usize>>>,
}

/// Runs Algorithm 2 with pseudo-random scores: (7,919 × place) mod 1,009.
fn refine(tokenizer: &Tokenizer, steps: &[String]) -> Vec<usize> {
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let scores: Vec<Option<f64>> = (0..steps.len()).map(|place| Some((place * 7919 % 1009) as f64)).collect();
    let joined = Joined::new(tokenizer, &steps).unwrap();
    let most = joined.tokens() / 4;
    joined.prune(by_score(&scores), most).unwrap()
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_string).collect()
}

async fn chains() -> Vec<String> {
    let context = session(Settings::default(), &Llm::default()).unwrap();
    let mut chains = vec![];
    for location in std::env::var("CORPUS").as_deref().unwrap_or(SAMPLE).split(' ') {
        let sql = format!("SELECT cot FROM cot_corpus('{location}') WHERE cot IS NOT NULL");
        for batch in context.sql(&sql).await.unwrap().collect().await.unwrap() {
            let column = cast(batch.column(0), &DataType::Utf8);
            chains.extend(column.unwrap().as_string::<i32>().iter().flatten().map(str::to_string));
        }
    }
    chains
}

fn tokens(criterion: &mut Criterion<CpuTime>) {
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
    let chains = tokio::runtime::Runtime::new().unwrap().block_on(chains());
    let bytes = chains.iter().map(|chain| chain.len() as u64).sum();
    let mut group = criterion.benchmark_group("tokens");
    group.throughput(Throughput::Bytes(bytes)).sample_size(10);
    let steps: Vec<Vec<String>> = chains.iter().take(REFINED).map(|chain| owned(steps(chain))).collect();
    let (mut ids, mut kept) = (BTreeMap::new(), BTreeMap::new());
    for model in MODELS {
        let tokenizer = Tokenizer::load(Path::new(model)).unwrap();
        let encode = |chain: &String| tokenizer.encode(chain, false).unwrap().ids;
        ids.insert(model, chains.iter().map(encode).collect());
        group.bench_function(format!("{model}, ids"), |bencher| {
            bencher.iter(|| chains.iter().map(|chain| tokenizer.count(black_box(chain)).unwrap()).sum::<usize>());
        });
        group.bench_function(format!("{model}, offsets"), |bencher| {
            bencher.iter(|| chains.iter().for_each(|chain| drop(black_box(tokenizer.encode(chain, false)))));
        });
        kept.insert(model, steps.iter().map(|steps| refine(&tokenizer, steps)).collect());
        group.bench_function(format!("{model}, refine"), |bencher| {
            // A new tokenizer has an empty cache.
            let new = || Tokenizer::load(Path::new(model)).unwrap();
            let work = |tokenizer: Tokenizer| {
                steps.iter().for_each(|steps| drop(black_box(refine(&tokenizer, steps))));
                tokenizer
            };
            bencher.iter_batched(new, work, BatchSize::PerIteration);
        });
    }
    let file = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("tokens.json")).unwrap();
    serde_json::to_writer(std::io::BufWriter::new(file), &Inputs { chains, ids, steps, kept }).unwrap();
}

criterion_group! { name = benches; config = Criterion::default().with_measurement(CpuTime); targets = tokens }
criterion_main!(benches);
