//! Encodes a row of a corpus as a training example.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use asap_lm::example::{Conversation, Encoded, Example, ExampleTemplate, Long, Response};
use asap_lm::{Asked, LmError, Result, Tokenizer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

#[derive(Debug)]
pub struct Encoder {
    pub template: ExampleTemplate,
    pub tokenizer: Arc<Tokenizer>,
    pub max_length: usize,
    pub long: Long,
    pub loss: Loss,
    /// Fraction of questions whose rows are held out, from 0 to below 1.
    pub held_out: f64,
    /// Identifies the tokenizer and chat template: differs if either differs.
    pub fingerprint: String,
}

/// Which tokens of a response are learned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    #[default]
    All,
    /// Of the chain before pruning, only the steps that the pipeline kept. The other steps are context.
    Kept,
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let named = [Self::All, Self::Kept].into_iter().find(|loss| loss.to_string() == text);
        named.ok_or_else(|| "expected all or kept".to_string())
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// What becomes of a row. A conversation may have several examples: see [`ExampleTemplate::encode_conversation`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FedRow {
    Learned(Vec<Example>),
    /// Examples of which some were cut to the maximum length.
    Cut(Vec<Example>),
    HeldOut(Vec<Example>),
    TooLong,
    /// It cannot be learned: the corpus rejects it, or the chat template does. With the reason.
    Rejected(String),
}

impl Encoder {
    /// Loads the tokenizer and chat template of the model in `folder`. Learns all, and holds out no row. An example has
    /// at most `max_length` tokens, and at most the model's `max_position_embeddings` (config.json).
    ///
    /// # Errors
    /// If they cannot be read, if the model has no end token, or if its tokenizer has ids of `vocab_size` or more.
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
                "vocab_size is {vocabulary}, but the tokenizer next to it has ids up to {}, which have no embedding; use \
                 this model's tokenizer",
                tokens - 1
            )));
        }
        let template = ExampleTemplate::load(folder, None, &tokenizer)?;
        let max_length = max_length.min(count("max_position_embeddings"));
        let fingerprint = fingerprint(folder)?;
        Ok(Self { template, tokenizer, max_length, long, loss: Loss::All, held_out: 0.0, fingerprint })
    }

    /// Encodes a row: its prompt and response. Whether a row is held out depends only on its question, so that the
    /// model never learns another chain of a held-out question.
    pub fn encode(&self, asked: Asked, response: &Response) -> Result<FedRow> {
        let encoded = self.template.encode(&self.tokenizer, asked, response, self.max_length, self.long);
        self.fed(asked.question, encoded.map(|encoded| encoded.map(|example| vec![example])))
    }

    /// Encodes a conversation with several exchanges or tools, whose first question this is.
    pub fn encode_conversation(&self, question: &str, conversation: &Conversation) -> Result<FedRow> {
        let Self { tokenizer, max_length, long, .. } = self;
        self.fed(question, self.template.encode_conversation(tokenizer, conversation, *max_length, *long))
    }

    fn fed(&self, question: &str, encoded: Result<Encoded<Vec<Example>>>) -> Result<FedRow> {
        let is_held_out = self.is_held_out(question);
        Ok(match encoded {
            Err(LmError::Prompt(why)) => FedRow::Rejected(why),
            Err(error) => return Err(error),
            Ok(Encoded::TooLong(_)) => FedRow::TooLong,
            Ok(Encoded::Whole(examples) | Encoded::Cut(examples)) if is_held_out => FedRow::HeldOut(examples),
            Ok(Encoded::Whole(examples)) => FedRow::Learned(examples),
            Ok(Encoded::Cut(examples)) => FedRow::Cut(examples),
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
