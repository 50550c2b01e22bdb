//! Helpers for the tests of this crate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::backend::{Backend, IsWanted, Packed, Target, TokenScore};
use crate::text::cuts::Cuts;
use crate::{Computed, LoadedModel, Reading, Result, Scored, Scorer, Scores, Tokenizer, Wanted};
use asap_kernels::memo::Memory;

/// A backend that scores by a function.
pub(crate) struct By<F>(pub F)
where
    F: FnMut(Packed, &[Target], &IsWanted) -> Result<Vec<TokenScore>> + Send;

impl<F: FnMut(Packed, &[Target], &IsWanted) -> Result<Vec<TokenScore>> + Send> Backend for By<F> {
    fn name(&self) -> &'static str {
        "stub"
    }

    fn score(&mut self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        (self.0)(chains, targets, is_wanted)
    }
}

/// The values of a file with one in JSON per line.
pub(crate) fn lines<T: serde::de::DeserializeOwned>(path: impl AsRef<Path>) -> Vec<T> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A JSON object with some values replaced.
pub(crate) fn changed(mut object: Value, changes: &Value) -> Value {
    object.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    object
}

/// The test cases of a file in `tests`.
pub(crate) fn cases<T: serde::de::DeserializeOwned>(file: &str) -> Vec<T> {
    lines(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file))
}

/// Changes to the config of the first case, and what the changed config becomes.
#[derive(serde::Deserialize)]
struct ConfigCase {
    changes: Value,
    /// Changes that give the same config.
    same: Option<Value>,
    /// Texts of the shown config.
    #[serde(default)]
    holds: Vec<String>,
    /// A text of the error.
    refused: Option<String>,
}

/// Parses the configs of a file in `tests`, and compares them as `shown`.
pub(crate) fn check_configs<C>(file: &str, parse: fn(&str) -> std::result::Result<C, String>, shown: fn(&C) -> String) {
    let all: Vec<ConfigCase> = cases(file);
    let parse = |changes: &Value| parse(&changed(all[0].changes.clone(), changes).to_string());
    for ConfigCase { changes, same, holds, refused } in &all {
        match (parse(changes).map(|config| shown(&config)), refused) {
            (Ok(found), None) => {
                holds.iter().for_each(|held| assert!(found.contains(held), "{changes}: {found}"));
                same.iter().for_each(|same| assert_eq!(found, shown(&parse(same).unwrap()), "{changes}"));
            }
            (Err(error), Some(why)) => assert!(error.contains(why), "{changes}: {error}"),
            (found, why) => panic!("{changes}: {found:?}, expected {why:?}"),
        }
    }
}

pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens").join(name)
}

/// A scorer with a model of the goldens, and the question as the prompt.
pub(crate) fn scorer(computed: Computed, name: &str, memory: &Arc<Memory>) -> Scorer {
    let tokenizer = Arc::new(Tokenizer::load_within(&golden(name), memory).unwrap());
    let model = Arc::new(LoadedModel::load(&golden(name), computed, &tokenizer, memory).unwrap());
    Scorer::new(&golden(name), Some("{question}"), tokenizer, model, memory).unwrap()
}

pub(crate) fn read(scorer: &Scorer, readings: &[Reading], wanted: Wanted) -> Vec<Scored> {
    futures::executor::block_on(scorer.score(scorer.prepare(readings, wanted).unwrap())).unwrap()
}

pub(crate) fn steps(scored: Scored) -> Arc<Scores> {
    match scored {
        Scored::Steps(scores) => scores,
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct ScoredChain {
    pub question: String,
    pub steps: Vec<String>,
    pub tokens: usize,
    pub surprisal: Vec<Option<f64>>,
    pub entropy: Vec<Option<f64>>,
    pub perplexity: Vec<Option<f64>>,
}

pub(crate) fn chains(model: &str) -> Vec<ScoredChain> {
    lines(golden(model).join("cots.jsonl"))
}

pub(crate) fn golden_tokenizer(model: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(model).join("tokenizer.json")).unwrap()).unwrap()
}

pub(crate) fn tokenizer(json: &Value) -> Tokenizer {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
    Tokenizer::load(folder.path()).unwrap()
}

pub(crate) fn gpt2() -> Value {
    let mut json = golden_tokenizer("llama");
    json["pre_tokenizer"] = json!(
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json
}

/// A small vocabulary like Llama 2's: merges run over the whole text, a space is `▁`.
pub(crate) fn sentence_piece() -> Value {
    serde_json::from_str(include_str!("../tests/sentence_piece.json")).unwrap()
}

fn metaspace() -> Value {
    let mut json = sentence_piece();
    json["normalizer"] = Value::Null;
    json["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
    json
}

fn unknown() -> Value {
    let mut json = golden_tokenizer("llama");
    json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!(r"\s+\S|\S+");
    json
}

pub(super) fn all() -> [(Tokenizer, Cuts); 6] {
    [
        (tokenizer(&golden_tokenizer("qwen2")), Cuts::ByteLevel),
        (tokenizer(&golden_tokenizer("llama")), Cuts::ByteLevel),
        (tokenizer(&gpt2()), Cuts::ByteLevel),
        (tokenizer(&sentence_piece()), Cuts::SentencePiece),
        (tokenizer(&metaspace()), Cuts::SentencePiece),
        (tokenizer(&unknown()), Cuts::Unknown),
    ]
}

/// Steps that are hard to cut: short ones, white space, punctuation, combining marks, added tokens.
pub(crate) fn nasty_steps() -> impl Strategy<Value = Vec<String>> {
    let part = prop_oneof![
        6 => "[ab1 .]{1,6}",
        3 => prop::sample::select(vec![
            "\n", "\r\n", "\n\n", "\t", "  ", "'", "'s", "'ll", "'re", "=", "<", ";", "...", ", ", "12", "1234", "/",
        ]).prop_map(str::to_string),
        2 => prop::sample::select(vec![
            "\u{301}", "\u{338}", "e\u{301}", "é", "か\u{3099}", "所以", "，", "“", "г", "\u{212a}", "\u{37e}", "漢字", "。", "\u{a0}", "\u{2028}", "🙂", "ſ",
            "\u{1100}\u{1161}", "\u{958}", "ß", "½", "²",
        ]).prop_map(str::to_string),
        1 => prop::sample::select(vec!["<|im_end|>", "<|im", "_end|>", "<|end_of_text|>", "ab"])
            .prop_map(str::to_string),
    ];
    let step = prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat());
    prop::collection::vec(step, 0..9)
}
