//! Phi-3, Gemma 2 and Qwen3-MoE by candle-transformers, in f32 on CPUs, for machines without Python.
//!
//! Its models keep keys and values, and return logits after the last token that they read. So a chain is read in pieces,
//! and a piece ends at each row to score.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Error, Shape, Tensor};
use candle_nn::var_builder::{SimpleBackend, VarBuilder};
use candle_transformers::models::{gemma2, phi3, qwen3_moe};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::backend::{Backend, IsWanted, Packed, Target, TokenScore};
use crate::model::config;
use crate::model::weights::{ANGLES, Files};
use crate::ops::{SumOfExponentials, count_above};
use crate::{LmError, LoadedModel, Result, Tokenizer};
use asap_kernels::memo::Memory;

/// Most tokens of a piece. Attention takes memory for each of them with each token before, and callers may leave only
/// between pieces.
const PIECE: usize = 128;

/// The families, by `model_type`.
const FAMILIES: [&str; 3] = ["phi3", "gemma2", "qwen3_moe"];

/// Loads a model and starts its thread. Scores are cached within `memory`.
///
/// # Errors
/// If the model is of another family, or has what candle-transformers does not compute.
pub fn open(folder: &Path, tokenizer: &Arc<Tokenizer>, memory: &Arc<Memory>) -> Result<LoadedModel> {
    let config = config::load(folder, parse)?;
    let decoder = Decoder::load(folder, &config)?;
    let model = LoadedModel::with_backends(vec![Box::new(Candle(decoder))], folder, tokenizer, memory)?;
    Ok(model.with_window(config.window))
}

/// Fails unless candle-transformers computes what a folder's `config.json` describes.
///
/// # Errors
/// As [`open`].
pub fn check(folder: &Path) -> Result<()> {
    config::load(folder, parse).map(drop)
}

#[derive(Debug)]
struct Config {
    family: &'static str,
    /// The length up to which attention covers the whole text: across pieces, these models slide no window.
    window: usize,
    /// With the names and the fields that candle-transformers reads.
    fields: Value,
}

impl Config {
    fn read<C: DeserializeOwned>(&self, folder: &Path) -> Result<C> {
        let wrong = |error| LmError::unsupported(&folder.join("config.json"), format!("{error}"));
        serde_json::from_value(self.fields.clone()).map_err(wrong)
    }
}

/// Reads a config in the style of transformers 4 or 5, and refuses what the models of candle-transformers leave out.
fn parse(text: &str) -> std::result::Result<Config, String> {
    let mut fields: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let named = fields["model_type"].as_str().unwrap_or_default();
    let Some(family) = FAMILIES.into_iter().find(|family| *family == named) else {
        let expected = FAMILIES.join(", ");
        return Err(format!("the backend candle does not run the model_type '{named}': expected one of {expected}"));
    };
    let rope = fields["rope_parameters"].clone();
    let scaling = fields["rope_scaling"].take();
    for (key, held) in [
        ("rope_theta", &rope["rope_theta"]),
        ("partial_rotary_factor", &rope["partial_rotary_factor"]),
        ("num_experts", &fields["num_local_experts"].clone()),
        ("max_window_layers", &json!(0)),
    ] {
        if fields[key].is_null() {
            fields[key] = held.clone();
        }
    }
    let mut expected = vec![
        ("rope_type", &rope["rope_type"], json!("default")),
        ("rope_scaling", &scaling, Value::Null),
        ("use_sliding_window", &fields["use_sliding_window"], json!(false)),
        ("mlp_only_layers", &fields["mlp_only_layers"], json!([])),
        ("use_bidirectional_attention", &fields["use_bidirectional_attention"], Value::Null),
    ];
    if family == "gemma2" {
        expected.push(("query_pre_attn_scalar", &fields["query_pre_attn_scalar"], fields["head_dim"].clone()));
    }
    if let Some((key, found, expected)) = expected.iter().find(|(_, found, value)| !found.is_null() && *found != value)
    {
        return Err(format!("{key} {found} is not supported by the backend candle: expected {expected}"));
    }
    let tokens = |key: &str| fields[key].as_u64().map(|tokens| tokens as usize);
    let window = tokens("max_position_embeddings").ok_or("max_position_embeddings is missing")?;
    let window = tokens("sliding_window").map_or(window, |tokens| tokens.min(window));
    // Some configs list several ends.
    for unused in ["sliding_window", "bos_token_id", "eos_token_id"] {
        fields[unused] = Value::Null;
    }
    Ok(Config { family, window, fields })
}

enum Decoder {
    Phi3(phi3::Model),
    Gemma2(gemma2::Model),
    Qwen3Moe(qwen3_moe::ModelForCausalLM),
}

impl Decoder {
    fn load(folder: &Path, config: &Config) -> Result<Self> {
        let files = Stored(Arc::new(Mutex::new(Files::open(folder)?)));
        let weights = VarBuilder::from_backend(Box::new(files.clone()), DType::F32, Device::Cpu);
        let decoder = match config.family {
            "phi3" => Self::Phi3(phi3::Model::new(&config.read(folder)?, weights)?),
            "gemma2" => Self::Gemma2(gemma2::Model::new(false, &config.read(folder)?, weights)?),
            _ => Self::Qwen3Moe(qwen3_moe::ModelForCausalLM::new(&config.read(folder)?, weights)?),
        };
        let files = files.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.refuse_unread(&[ANGLES], &format!("{} model", config.family))?;
        Ok(decoder)
    }

    fn clear(&mut self) {
        match self {
            Self::Phi3(model) => model.clear_kv_cache(),
            Self::Gemma2(model) => model.clear_kv_cache(),
            Self::Qwen3Moe(model) => model.clear_kv_cache(),
        }
    }

    /// The logits after the last of these tokens, which follow `before` others.
    fn logits(&mut self, ids: &[u32], before: usize) -> Result<Vec<f32>> {
        let ids = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
        let logits = match self {
            Self::Phi3(model) => model.forward(&ids, before)?,
            Self::Gemma2(model) => model.forward(&ids, before)?,
            Self::Qwen3Moe(model) => model.forward(&ids, before)?,
        };
        Ok(logits.flatten_all()?.to_vec1()?)
    }
}

/// Weights that are read one at a time.
#[derive(Clone)]
struct Stored(Arc<Mutex<Files>>);

impl SimpleBackend for Stored {
    fn get(&self, s: Shape, name: &str, _: candle_nn::Init, dtype: DType, _: &Device) -> candle_core::Result<Tensor> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.read(name, s.dims(), dtype).map_err(Error::wrap)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        Err(Error::Msg(format!("the shape of tensor '{name}' is not known")))
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unread().iter().any(|(held, _)| *held == name)
    }
}

struct Candle(Decoder);

impl Backend for Candle {
    fn name(&self) -> &'static str {
        "candle"
    }

    fn score(&mut self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let mut order: Vec<usize> = (0..targets.len()).collect();
        order.sort_by_key(|place| targets[*place].row);
        let mut order = order.into_iter().peekable();
        let mut scores = vec![TokenScore::NONE; targets.len()];
        let mut begin = 0;
        for length in chains.lengths {
            self.0.clear();
            let (mut read, mut logits) = (begin, Vec::new());
            while let Some(place) = order.next_if(|place| (targets[*place].row as usize) < begin + length) {
                let Target { row, id } = targets[place];
                for piece in chains.ids[read..(row as usize + 1).max(read)].chunks(PIECE) {
                    if !is_wanted() {
                        return Err(LmError::Abandoned);
                    }
                    logits = self.0.logits(piece, read - begin)?;
                    read += piece.len();
                }
                let Some(logit) = logits.get(id as usize) else {
                    let message = format!("expected a token id below {}, found {id}", logits.len());
                    return Err(Error::msg(message).into());
                };
                let (log_sum, entropy) = SumOfExponentials::new(&logits).finish();
                scores[place] =
                    TokenScore { surprisal: log_sum - logit, entropy, rank: 1 + count_above(&logits, *logit) };
            }
            begin += length;
        }
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, golden, lines};

    #[derive(serde::Deserialize)]
    struct Golden {
        ids: Vec<u32>,
        surprisal: Vec<f32>,
        entropy: Vec<f32>,
    }

    fn candle(family: &str) -> Candle {
        let config = config::load(&golden(family), parse).unwrap();
        Candle(Decoder::load(&golden(family), &config).unwrap())
    }

    #[test]
    fn families_score_as_transformers() {
        for family in FAMILIES {
            let goldens: Vec<Golden> = lines(golden(family).join("scores.jsonl"));
            let ids: Vec<u32> = goldens.iter().flat_map(|golden| &golden.ids).copied().collect();
            let lengths: Vec<usize> = goldens.iter().map(|golden| golden.ids.len()).collect();
            assert!(lengths.iter().any(|length| *length > 64), "no chain has several pieces");
            let (mut targets, mut begin) = (Vec::new(), 0);
            for golden in &goldens {
                let target = |(place, id): (usize, &u32)| Target { row: (begin + place) as u32, id: *id };
                targets.extend(golden.ids[1..].iter().enumerate().map(target));
                begin += golden.ids.len();
            }
            let expected = goldens.iter().flat_map(|golden| golden.surprisal.iter().zip(&golden.entropy));
            let expected: Vec<(f32, f32)> = expected.map(|(surprisal, entropy)| (*surprisal, *entropy)).collect();
            // Every row, and a few in another order.
            for step in [1, 23] {
                let some = |place: &usize| place.is_multiple_of(step);
                let places: Vec<usize> = (0..targets.len()).rev().filter(some).collect();
                let asked: Vec<Target> = places.iter().map(|place| targets[*place]).collect();
                let chains = Packed { ids: &ids, lengths: &lengths };
                let found = candle(family).score(chains, &asked, &|| true).unwrap();
                for (place, found) in places.iter().zip(&found) {
                    let (surprisal, entropy) = expected[*place];
                    assert!((found.surprisal - surprisal).abs() < 1e-4, "{family} {place}: {found:?} {surprisal}");
                    assert!((found.entropy - entropy).abs() < 1e-4, "{family} {place}: {found:?} {entropy}");
                }
            }
            let chains = Packed { ids: &ids, lengths: &lengths };
            assert!(matches!(candle(family).score(chains, &targets, &|| false), Err(LmError::Abandoned)));
        }
    }

    #[test]
    fn what_candle_leaves_out_is_refused() {
        let with = |family: &str, changes: Value| {
            let text = std::fs::read_to_string(golden(family).join("config.json")).unwrap();
            parse(&changed(serde_json::from_str(&text).unwrap(), &changes).to_string())
        };
        for (family, changes) in [
            ("gemma2", json!({ "query_pre_attn_scalar": 144 })),
            ("gemma2", json!({ "model_type": "gemma3" })),
            ("phi3", json!({ "rope_scaling": { "type": "longrope" } })),
            ("phi3", json!({ "rope_parameters": { "rope_type": "longrope", "rope_theta": 10000.0 } })),
            ("qwen3_moe", json!({ "use_sliding_window": true })),
            ("qwen3_moe", json!({ "mlp_only_layers": [0] })),
        ] {
            let error = with(family, changes).unwrap_err();
            assert!(error.contains("the backend candle"), "{error}");
        }
        assert_eq!(with("gemma2", json!({ "sliding_window": 64 })).unwrap().window, 64);
        let untied = with("gemma2", json!({ "vocab_size": 95 })).unwrap();
        let error = Decoder::load(&golden("gemma2"), &untied).err().unwrap().to_string();
        assert!(error.contains("has shape [96, 16], config.json requires [95, 16]"), "{error}");
        let fewer = with("phi3", json!({ "num_hidden_layers": 1 })).unwrap();
        let error = Decoder::load(&golden("phi3"), &fewer).err().unwrap().to_string();
        assert!(error.contains("is not part of the phi3 model"), "{error}");
    }
}
