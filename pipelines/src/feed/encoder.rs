//! A row of a corpus as what is learned of it.

use std::path::Path;
use std::sync::Arc;

use asap_lm::Tokenizer;
use asap_lm::example::{Encoded, Example, ExampleTemplate, Long};
use asap_lm::{Asked, LmError, Result};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// How rows become examples of one model.
#[derive(Debug)]
pub struct Encoder {
    /// The model's template.
    pub template: ExampleTemplate,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// The most tokens of an example.
    pub max_length: usize,
    /// What becomes of longer ones.
    pub long: Long,
    /// The part of the questions whose rows are not learned, from 0 to below 1.
    pub held_out: f64,
    /// Another text for another tokenizer or chat template.
    pub fingerprint: String,
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// An example to learn.
    Learned(Example),
    /// One that was cut.
    Cut(Example),
    /// One to measure the model on.
    HeldOut(Example),
    /// It has too many tokens.
    TooLong,
    /// It has no question or chain, or the chat template refuses it.
    Rejected,
}

impl Encoder {
    /// For the tokenizer and chat template of the model in `folder`; no row is held out. An example has no more tokens than its
    /// config.json says that the model reads (`max_position_embeddings`).
    ///
    /// # Errors
    /// If they cannot be read, if the model names no end token, or if its tokenizer has tokens that its vocabulary lacks.
    pub fn load(folder: &Path, max_length: usize, long: Long) -> Result<Self> {
        let path = folder.join("config.json");
        let text = std::fs::read(&path).map_err(|source| LmError::Read { path: path.clone(), source })?;
        let unsupported = |found: String| LmError::Unsupported { path: path.clone(), found };
        let config: Value = serde_json::from_slice(&text).map_err(|error| unsupported(error.to_string()))?;
        let count = |key: &str| config[key].as_u64().map_or(usize::MAX, |count| count as usize);
        let tokenizer = Arc::new(Tokenizer::load(folder)?);
        let (tokens, vocabulary) = (tokenizer.largest_id().map_or(0, |id| id as usize + 1), count("vocab_size"));
        if tokens > vocabulary {
            return Err(unsupported(format!(
                "the tokenizer beside it has {tokens} tokens, and vocab_size is {vocabulary}: these tokens have no embedding \
                 to learn; use the tokenizer of this model"
            )));
        }
        let template = ExampleTemplate::load(folder, None, &tokenizer)?;
        let max_length = max_length.min(count("max_position_embeddings"));
        Ok(Self { template, tokenizer, max_length, long, held_out: 0.0, fingerprint: fingerprint(folder)? })
    }

    /// What becomes of a row of what was asked, chain and answer. Whether it is held out depends on its question alone, so that no
    /// other chain of a question that is measured is learned.
    ///
    /// # Errors
    /// If a text cannot be tokenised.
    pub fn encode(&self, asked: Asked, [cot, answer]: [&str; 2]) -> Result<Row> {
        let is_held_out = self.is_held_out(asked.question);
        let encoded = match self.template.encode(&self.tokenizer, asked, [cot, answer], self.max_length, self.long) {
            Err(LmError::Prompt(_)) => return Ok(Row::Rejected),
            encoded => encoded?,
        };
        Ok(match encoded {
            Encoded::TooLong(_) => Row::TooLong,
            Encoded::Whole(example) | Encoded::Cut(example) if is_held_out => Row::HeldOut(example),
            Encoded::Whole(example) => Row::Learned(example),
            Encoded::Cut(example) => Row::Cut(example),
        })
    }

    fn is_held_out(&self, question: &str) -> bool {
        let hash = Sha256::digest(question);
        let drawn = hash.iter().take(8).fold(0, |drawn: u64, byte| drawn << 8 | u64::from(*byte));
        (drawn as f64) < self.held_out * 2f64.powi(64)
    }
}

fn fingerprint(folder: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
        let path = folder.join(name);
        let content = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|source| LmError::Read { path, source })?,
        };
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    Ok(format!("{:x}", hash.finalize()))
}
