//! What the tests of this module share.

use std::path::{Path, PathBuf};

/// A folder of `tests/goldens`.
pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens").join(name)
}

/// A chain of `tests/goldens/*/cots.jsonl` with its scores.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Chain {
    pub question: String,
    pub steps: Vec<String>,
    /// Tokens of the question and the steps.
    pub tokens: usize,
    /// Place of each step's first token.
    pub first_token: Vec<usize>,
    pub surprisal: Vec<Option<f64>>,
    pub entropy: Vec<Option<f64>>,
    pub perplexity: Vec<Option<f64>>,
}

/// The chains of a golden model.
pub(crate) fn chains(model: &str) -> Vec<Chain> {
    let text = std::fs::read_to_string(golden(model).join("cots.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
