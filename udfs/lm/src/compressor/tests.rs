//! Compares texts with the published code, and tests invalid options, rates and models.

use super::*;
use crate::ops::Cores;
use crate::testing::{golden, lines};
use candle_core::{Device, Tensor, safetensors};
use regex::Regex;
use serde_json::Value;
use std::collections::HashMap;
use tempfile::TempDir;

const MODELS: [&str; 2] = ["xlm-roberta-large-tiny", "bert-base-multilingual-cased-tiny"];

type Tensors = HashMap<String, Tensor>;

#[derive(serde::Deserialize)]
struct Golden {
    text: String,
    rate: f64,
    kwargs: Kwargs,
    compressed: String,
    #[serde(default)]
    without_new: bool,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Kwargs {
    force_tokens: Vec<String>,
    force_reserve_digit: bool,
    drop_consecutive: bool,
}

impl Golden {
    fn options(&self) -> Options {
        Options {
            force_tokens: self.kwargs.force_tokens.clone(),
            reserve_digits: self.kwargs.force_reserve_digit,
            drop_consecutive: self.kwargs.drop_consecutive,
        }
    }

    fn compress(&self, compressor: &Compressor) -> String {
        compressor.compress(&self.text, self.rate, &self.options(), &weigh()).unwrap()
    }
}

fn goldens(model: &str, file: &str) -> Vec<Golden> {
    lines(golden("llmlingua2").join(model).join(file))
}

fn compressor(model: &str) -> Compressor {
    Compressor::load(&golden("llmlingua2").join(model)).unwrap()
}

fn weigh() -> impl Fn(&str) -> Result<usize> + Sync {
    let pieces = Regex::new(r"[\p{L}\p{N}_]{1,4}|[^\p{L}\p{N}_\s]").unwrap();
    move |word| Ok(pieces.find_iter(word).count())
}

/// A copy of a model with a changed config, tensors and tokenizer.
fn changed(model: &str, change: impl Fn(&mut Value, &mut Tensors, &mut Value)) -> TempDir {
    let (from, folder) = (golden("llmlingua2").join(model), tempfile::tempdir().unwrap());
    let json = |name: &str| serde_json::from_slice(&std::fs::read(from.join(name)).unwrap()).unwrap();
    let (mut config, mut tokenizer) = (json("config.json"), json("tokenizer.json"));
    let mut tensors = safetensors::load(from.join("model.safetensors"), &Device::Cpu).unwrap();
    change(&mut config, &mut tensors, &mut tokenizer);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
    folder
}

fn without_new(model: &str) -> Compressor {
    let folder = changed(model, |config, tensors, tokenizer| {
        config["vocab_size"] = 1500.into();
        let is_words = |name: &&String| name.ends_with("word_embeddings.weight");
        let words = tensors.keys().find(is_words).unwrap().clone();
        let cut = tensors[&words].narrow(0, 0, 1500).unwrap();
        tensors.insert(words, cut);
        let is_new = |token: &Value| token["content"].as_str().unwrap().starts_with("[NEW");
        tokenizer["added_tokens"].as_array_mut().unwrap().retain(|token| !is_new(token));
    });
    Compressor::load(folder.path()).unwrap()
}

#[test]
fn texts_are_those_of_the_published_code_with_and_without_rows_for_new_tokens() {
    for model in MODELS {
        let (with, without) = (compressor(model), without_new(model));
        for (file, count) in [("goldens.jsonl", 200), ("hard.jsonl", 69)] {
            let goldens = goldens(model, file);
            assert_eq!(goldens.len(), count);
            for (line, golden) in goldens.iter().enumerate() {
                let compressor = if golden.without_new { &without } else { &with };
                assert_eq!(golden.compress(compressor), golden.compressed, "{model} {file} {line}");
            }
        }
    }
}

#[test]
fn probabilities_are_those_of_transformers() {
    #[derive(serde::Deserialize)]
    struct Kept {
        ids: Vec<u32>,
        positions: Vec<usize>,
        keep: Vec<f32>,
    }
    for model in MODELS {
        let folder = golden("llmlingua2").join(model);
        let encoder = Encoder::load(&folder, EncoderConfig::load(&folder).unwrap()).unwrap();
        let goldens: Vec<Kept> = lines(folder.join("keep.jsonl"));
        let placed = |(id, position): (&u32, &usize)| Placed { id: *id, position: *position };
        let chunks: Vec<Vec<Placed>> =
            goldens.iter().map(|golden| golden.ids.iter().zip(&golden.positions).map(placed).collect()).collect();
        let found = encoder.keep(&chunks).unwrap();
        let expected = goldens.iter().map(|golden| &golden.keep);
        let apart = found.iter().zip(expected).flat_map(|(found, expected)| {
            assert_eq!(found.len(), expected.len());
            found.iter().zip(expected).map(|(a, b)| (a - b).abs())
        });
        let apart = apart.fold(0.0, f32::max);
        assert!(apart < 1e-5, "{model}: {apart}");
    }
}

#[test]
fn texts_become_the_same_together_as_alone() {
    for model in MODELS {
        let (compressor, goldens) = (compressor(model), goldens(model, "goldens.jsonl"));
        let is_plain = |golden: &&Golden| golden.kwargs.force_tokens.is_empty();
        let plain: Vec<&Golden> = goldens.iter().filter(is_plain).collect();
        let texts: Vec<(&str, f64)> = plain.iter().map(|golden| (golden.text.as_str(), golden.rate)).collect();
        let found = compressor.compress_all(&texts, &Options::default(), &weigh()).unwrap();
        assert_eq!(found.len(), 100);
        found.iter().zip(plain).for_each(|(found, golden)| assert_eq!(*found, golden.compressed));
    }
}

#[test]
fn a_rate_that_is_none_is_refused_and_at_1_a_text_stays_as_it_is() {
    let compressor = compressor(MODELS[0]);
    let compress = |texts: &[(&str, f64)]| compressor.compress_all(texts, &Options::default(), &weigh());
    for rate in [0.0, -0.5, 1.000_001, f64::NAN, f64::INFINITY] {
        let error = compress(&[("Add 2 and 3.", 0.5), ("It is 5.", rate)]).unwrap_err().to_string();
        let expected = format!("invalid rate {rate}: expected the share of a text to keep, a number above 0");
        assert!(error.starts_with(&expected), "{error}");
    }
    let found = compress(&[("a \n\n b", 1.0), ("", 0.5), (" \n\t ", 0.5), ("", 1.0), ("Add 2.", f64::MIN_POSITIVE)]);
    assert_eq!(found.unwrap(), ["a \n\n b", "", "", "", ""]);
    assert_eq!(compress(&[]).unwrap(), [""; 0]);
}

#[test]
fn force_tokens_that_are_none_are_refused_and_what_weighing_fails_with_is_handed_on() {
    let compressor = compressor(MODELS[1]);
    let compress = |force_tokens: Vec<String>| {
        let options = Options { force_tokens, ..Options::default() };
        compressor.compress("Add 2.", 0.5, &options, &weigh()).map_err(|error| error.to_string())
    };
    assert!(compress(vec![String::new()]).unwrap_err().contains("a force token is empty"));
    let many = |count: usize| (0..count).map(|i| format!("a{i}")).collect();
    assert!(compress(many(101)).unwrap_err().starts_with("101 force tokens: expected at most 100"));
    assert!(compress(many(100)).is_ok());
    let failing = |_: &str| Err(LmError::Tokenize("no".to_string()));
    assert!(compressor.compress("Add 2.", 0.5, &Options::default(), &failing).is_err());
}

#[test]
fn a_chunk_has_the_same_probabilities_to_the_bit_whoever_computes_it() {
    for model in MODELS {
        let (compressor, options) = (compressor(model), Options::default());
        let folder = golden("llmlingua2").join(model);
        let encoder = Encoder::load(&folder, EncoderConfig::load(&folder).unwrap()).unwrap();
        let rules = Rules::new(&options, &compressor.tokens, compressor.family).unwrap();
        for chunk in compressor.read(&rules, &goldens(model, "goldens.jsonl")[0].text).unwrap() {
            let [one, all] = [Cores::One, Cores::All].map(|cores| encoder.keep_chunk(&chunk, cores).unwrap());
            assert!(one == all && one.len() == chunk.len() && one.len() <= WINDOW, "{model}");
        }
    }
}

#[test]
fn a_long_text_is_read_chunk_by_chunk() {
    let compressor = compressor(MODELS[0]);
    for text in ["It is that 3 and x. ", "ab"].map(|part| part.repeat((1 << 18) / part.len())) {
        let found = compressor.compress(&text, 0.5, &Options::default(), &|_| Ok(1)).unwrap();
        assert!(found.len() < text.len(), "{}", found.len());
    }
}

#[test]
fn tokens_are_counted_as_the_encoder_would_read_them() {
    #[derive(Debug)]
    struct Watched(Encoder, Arc<AtomicU64>);
    impl Keeps for Watched {
        fn keep(&self, chunks: &[Vec<Placed>]) -> Result<Vec<Vec<f32>>> {
            let keep = self.0.keep(chunks)?;
            self.1.fetch_add(keep.iter().map(Vec::len).sum::<usize>() as u64, Ordering::Relaxed);
            Ok(keep)
        }
    }
    for model in MODELS {
        let (folder, [read, counted]) =
            (golden("llmlingua2").join(model), [(); 2].map(|()| Arc::<AtomicU64>::default()));
        let watched = Compressor::open(&folder, |config, _| {
            Ok(Box::new(Watched(Encoder::load(&folder, config)?, Arc::clone(&read))))
        });
        let compressors = [watched.unwrap(), Compressor::counted(&folder, Arc::clone(&counted)).unwrap()];
        for golden in goldens(model, "goldens.jsonl").iter().take(20) {
            compressors.iter().for_each(|compressor| drop(golden.compress(compressor)));
        }
        let [read, counted] = [read, counted].map(|tokens| tokens.load(Ordering::Relaxed));
        assert!(read == counted && read > 1000, "{model}: {read} and {counted}");
    }
}

#[test]
fn what_is_no_compressor_is_refused_before_any_text_is_read() {
    let error = |folder: &Path| Compressor::load(folder).unwrap_err().to_string();
    let decoder = error(&golden("qwen2"));
    assert!(decoder.contains("expected a token classifier with 2 labels") && decoder.contains("'qwen2'"), "{decoder}");
    assert!(error(Path::new("nowhere")).contains("cannot read nowhere/config.json"));

    type Change<'a> = &'a dyn Fn(&mut Value, &mut Tensors, &mut Value);
    let cases: [(Change, &str); 7] = [
        (&|_, tensors, _| drop(tensors.remove("classifier.weight")), "no tensor 'classifier.weight' of shape [2, 64]"),
        (&|config, _, _| config["num_hidden_layers"] = 1.into(), "'bert.encoder.layer.1.attention"),
        (&|config, _, _| config["max_position_embeddings"] = 128.into(), "window of at least 512 tokens, found 128"),
        (
            &|config, _, _| config["vocab_size"] = 1400.into(),
            "found token id 1599, but vocab_size in config.json is 1400",
        ),
        (
            &|config, _, _| config["hidden_size"] = 10_000_000_000_u64.into(),
            "hidden_size must be a whole number above 0",
        ),
        (
            &|_, _, tokenizer| tokenizer["added_tokens"][0]["id"] = u32::MAX.into(),
            "the id 4294967295: expected a whole number below 16777216",
        ),
        (&|_, _, tokenizer| *tokenizer = crate::testing::golden_tokenizer("qwen2"), "tokenizer.json"),
    ];
    for (change, why) in cases {
        let found = error(changed(MODELS[1], change).path());
        assert!(found.contains(why), "{found}");
    }
    let broken = changed(MODELS[1], |_, tensors, _| {
        let infinite = Tensor::full(f32::INFINITY, 2, &Device::Cpu).unwrap();
        tensors.insert("classifier.bias".to_string(), infinite);
    });
    let broken = Compressor::load(broken.path()).unwrap();
    let broken = broken.compress("Add 2.", 0.5, &Options::default(), &weigh()).unwrap_err().to_string();
    assert!(broken.contains("NaN or infinite values"), "{broken}");
}
