//! A row of a corpus as what is learned of it.

use std::path::Path;
use std::sync::Arc;

use asap_lm::Tokenizer;
use asap_lm::example::{Encoded, Example, ExampleTemplate, Long};
use asap_lm::{LmError, Result};
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
    /// The part of the rows that is not learned, from 0 to below 1.
    pub held_back: f64,
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// An example to learn.
    Learned(Example),
    /// One that was cut.
    Cut(Example),
    /// One to measure the model on.
    HeldBack(Example),
    /// It has too many tokens.
    TooLong,
    /// It has no question or chain, or the chat template refuses it.
    Rejected,
}

impl Encoder {
    /// For the tokenizer and chat template of the model in `folder`; no row is held back.
    ///
    /// # Errors
    /// If they cannot be read, or if the model names no end token.
    pub fn load(folder: &Path, max_length: usize, long: Long) -> Result<Self> {
        let tokenizer = Arc::new(Tokenizer::load(folder)?);
        let template = ExampleTemplate::load(folder, None, &tokenizer)?;
        Ok(Self { template, tokenizer, max_length, long, held_back: 0.0 })
    }

    /// What becomes of a row of question, chain and answer. Whether it is held back depends on its text alone.
    ///
    /// # Errors
    /// If a text cannot be tokenised.
    pub fn encode(&self, row: [&str; 3]) -> Result<Row> {
        let encoded = match self.template.encode(&self.tokenizer, row, self.max_length, self.long) {
            Err(LmError::Prompt(_)) => return Ok(Row::Rejected),
            encoded => encoded?,
        };
        Ok(match encoded {
            Encoded::TooLong(_) => Row::TooLong,
            Encoded::Whole(example) | Encoded::Cut(example) if self.is_held_back(row) => Row::HeldBack(example),
            Encoded::Whole(example) => Row::Learned(example),
            Encoded::Cut(example) => Row::Cut(example),
        })
    }

    fn is_held_back(&self, row: [&str; 3]) -> bool {
        let mut hash = Sha256::new();
        for text in row {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        let drawn = hash.finalize().iter().take(8).fold(0, |drawn: u64, byte| drawn << 8 | u64::from(*byte));
        (drawn as f64) < self.held_back * 2f64.powi(64)
    }
}
