//! Compares the whole model with the CPU's in f32, on a GPU or the emulated one of `tests/cuda`.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::*;
use crate::Tokenizer;
use crate::model::decoder::Decoder;
use crate::testing::{By, chains, golden};

/// Models with supported heads: with and without a bias, with norms of queries and keys, and a trained one.
const MODELS: [&str; 4] = ["qwen2", "llama", "qwen3", "../../data/model"];

fn on_gpu(folder: &Path) -> CudaModel {
    CudaModel::load(folder, ModelConfig::load(folder).unwrap(), 0).unwrap()
}

fn on_cpu(decoder: &Decoder, chains: Packed, targets: &[Target]) -> Vec<TokenScore> {
    decoder.score(&decoder.hidden(chains.ids, chains.lengths).unwrap(), targets).unwrap()
}

fn furthest(found: &[TokenScore], expected: &[TokenScore]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let apart =
        |(a, b): (&TokenScore, &TokenScore)| (a.surprisal - b.surprisal).abs().max((a.entropy - b.entropy).abs());
    found.iter().zip(expected).map(apart).fold(0.0, f32::max)
}

/// The tokens of some chains, and every token except the first of each as a target.
fn encoded(model: &str, texts: &str) -> (Vec<u32>, Vec<usize>, Vec<Target>) {
    let tokenizer = Tokenizer::load(&golden(model)).unwrap();
    let (mut ids, mut lengths, mut targets) = (vec![], vec![], vec![]);
    for chain in chains(texts).into_iter().take(4) {
        let text = format!("{}{}", chain.question, chain.steps.join("\n\n"));
        let own = tokenizer.encode(&text, true).unwrap().ids;
        let target = |(place, id): (usize, &u32)| Target { row: (ids.len() + place - 1) as u32, id: *id };
        targets.extend(own.iter().enumerate().skip(1).map(target));
        lengths.push(own.len());
        ids.extend(own);
    }
    (ids, lengths, targets)
}

#[test]
fn packed_chains_score_as_on_the_cpu_and_as_alone() {
    for name in MODELS {
        let texts = if name.contains('/') { "qwen3" } else { name };
        let (ids, lengths, targets) = encoded(name, texts);
        let mut model = on_gpu(&golden(name));
        let all = Packed { ids: &ids, lengths: &lengths };
        let packed = model.score(all, &targets, &|| true).unwrap();
        let apart = furthest(&packed, &on_cpu(&Decoder::load(&golden(name)).unwrap(), all, &targets));
        assert!(apart < 2e-2, "{name}: {apart} nats");
        let expected = on_cpu(&Decoder::load(&golden(name)).unwrap(), all, &targets);
        let ranks = |scores: &[TokenScore]| scores.iter().map(|score| f64::from(score.rank.min(100))).sum::<f64>();
        assert!((ranks(&packed) / ranks(&expected) - 1.0).abs() < 1e-2, "{name}");
        let mut first = 0;
        for length in lengths.iter().copied() {
            let rows = first..first + length;
            let (places, own) = targets_in(&rows, &targets);
            let alone = model.score(Packed { ids: &ids[rows], lengths: &[length] }, &own, &|| true).unwrap();
            let packed: Vec<TokenScore> = places.iter().map(|place| packed[*place]).collect();
            // A GPU may add up products of other sizes in another order.
            assert!(furthest(&packed, &alone) < 5e-3, "{name}");
            first += length;
        }
    }
}

#[test]
fn a_chain_longer_than_a_pass_scores_as_on_the_cpu() {
    let folder = golden("llama");
    let length = TOKENS_PER_PASS + 300;
    let ids: Vec<u32> = (0..length as u32 + 20).map(|i| i * 31 % 380).collect();
    let rows = [0, 63, 64, 1000, TOKENS_PER_PASS - 1, TOKENS_PER_PASS, length - 2, length + 10];
    let targets = rows.map(|row| Target { row: row as u32, id: ids[row + 1] });
    let chains = Packed { ids: &ids, lengths: &[length, 20] };
    let found = on_gpu(&folder).score(chains, &targets, &|| true).unwrap();
    let apart = furthest(&found, &on_cpu(&Decoder::load(&folder).unwrap(), chains, &targets));
    assert!(apart < 2e-2, "{apart} nats");
}

#[test]
fn forks_score_as_whole_texts() {
    let folder = golden("llama");
    let ids = |first: u32, count: u32| (first..first + count).map(|i| i * 31 % 380).collect::<Vec<u32>>();
    let fork = |from, ids: Vec<u32>, scored| Fork { from, ids, scored_there: 0, scored };
    let length = TOKENS_PER_PASS as u32 + 80;
    // A later text has a longer prefix than the one before it, and one is longer than the first.
    let texts = [
        fork(0, ids(0, length), 5..length as usize),
        fork(40, ids(7, 30), 1..30),
        fork(TOKENS_PER_PASS + 50, ids(3, 200), 150..200),
        fork(41, ids(9, 1), 1..1),
        fork(300, ids(11, 90), 2..90),
    ];
    let found = on_gpu(&folder).score_forks(&texts, &|| true).unwrap();
    let mut model = on_gpu(&folder);
    let mut unshared =
        By(|chains: Packed, targets: &[Target], is_wanted: &IsWanted| model.score(chains, targets, is_wanted));
    let whole = unshared.score_forks(&texts, &|| true).unwrap();
    let apart = furthest(&found, &whole);
    assert!(apart < 5e-3, "{apart} nats");
}

#[test]
fn the_heads_of_a_large_model_score_as_on_the_cpu() {
    let config = r#"{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 256,
        "intermediate_size": 512, "max_position_embeddings": 4096, "num_attention_heads": 7, "num_key_value_heads": 1,
        "head_dim": 128, "num_hidden_layers": 2, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": false,
        "vocab_size": 9000}"#;
    let config = ModelConfig::parse(config).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut drawn = BTreeMap::new();
    let half = Weights::build(&config, |name, shape| {
        let mut draw = |_| f16::from_f32((random.next_u32() as f32 / u32::MAX as f32 - 0.5) * 0.5);
        let values: Vec<f16> = (0..shape.iter().product()).map(&mut draw).collect();
        let tensor = Tensor::from_vec(values, shape, &Device::Cpu)?;
        drawn.insert(name.to_string(), tensor.to_dtype(DType::F32)?);
        Ok(if shape.len() == 2 { tensor } else { drawn[name].clone() })
    });
    let whole = crate::model::weights::Weights::<Tensor>::build(&config, |name, _| Ok(drawn[name].clone())).unwrap();
    let ids: Vec<u32> = (0..420).map(|i| i * 7919 % 9000).collect();
    let targets: Vec<Target> = (0..419).map(|row| Target { row, id: ids[row as usize + 1] }).collect();
    let mut model = CudaModel::new(config.clone(), half.unwrap()).unwrap();
    let chains = Packed { ids: &ids, lengths: &[300, 120] };
    let found = model.score(chains, &targets, &|| true).unwrap();
    let apart = furthest(&found, &on_cpu(&Decoder::new(config, whole), chains, &targets));
    assert!(apart < 2e-2, "{apart} nats");
}

#[test]
fn numbers_beyond_f16_give_no_score() {
    let folder = golden("llama");
    let config = ModelConfig::load(&folder).unwrap();
    let mut weights = Weights::load(&folder, &config).unwrap();
    weights.norm = (weights.norm * 1e8).unwrap();
    let mut model = CudaModel::new(config, weights).unwrap();
    let chains = Packed { ids: &[1, 2, 3], lengths: &[3] };
    let found = model.score(chains, &[Target { row: 1, id: 3 }], &|| true).unwrap();
    assert!(!found[0].surprisal.is_finite());
}

#[test]
fn tokens_outside_the_vocabulary_are_an_error() {
    let mut model = on_gpu(&golden("llama"));
    let target = Target { row: 0, id: 2 };
    for (ids, target) in [([1, 2000], target), ([1, 2], Target { id: 2000, ..target })] {
        let error = model.score(Packed { ids: &ids, lengths: &[2] }, &[target], &|| true).unwrap_err().to_string();
        assert!(error.contains("below 2000, found 2000"), "{error}");
    }
}
