//! What can go wrong with a model.

use std::path::PathBuf;
use std::sync::Arc;

/// What can go wrong with a model, with the file or setting that it is about.
#[derive(Debug, thiserror::Error)]
pub enum LmError {
    /// A file of the model's folder is missing or cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: std::io::Error,
    },
    /// A file of a new model's folder cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why it cannot be written.
        source: std::io::Error,
    },
    /// A file of the model's folder holds something that is not supported or does not fit the rest.
    #[error("{}: {found}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What was found in it and what was expected.
        found: String,
    },
    /// Nothing is there that was named as a model.
    #[error("{0}")]
    NoModel(String),
    /// A conversation leaves no room for an answer.
    #[error("{tokens} tokens with the chat template, the model's window is {window}")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that the model can read at once.
        window: usize,
    },
    /// A chat template fails on a conversation.
    #[error("the model's chat template: {0}")]
    Prompt(String),
    /// A text cannot be compressed as it was asked for.
    #[error("{0}")]
    Compression(String),
    /// A text could not be tokenised.
    #[error("the tokenizer failed: {0}")]
    Tokenize(String),
    /// The model's thread has ended or could not answer.
    #[error("the model's thread: {0}")]
    Thread(String),
    /// Nobody waits for it any longer.
    #[error("nobody waits for what is computed")]
    Abandoned,
    /// Rows that went through the model together failed together.
    #[error(transparent)]
    Shared(Arc<LmError>),
    /// The GPU, its driver or its libraries failed.
    #[error("the GPU: {0}")]
    Gpu(String),
    /// Training has gone astray.
    #[error("the loss is no longer a number after {steps} steps: lower the learning rate")]
    Diverged {
        /// Steps that were made.
        steps: usize,
    },
    /// The tensors library failed.
    #[error("the model failed: {0}")]
    Compute(#[from] candle_core::Error),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, LmError>;
