//! The error type of this crate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asap_kernels::front_end::Setting;

/// An error of a model, with the file or setting that caused it.
#[derive(Debug, thiserror::Error)]
pub enum LmError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A file of the model folder has unsupported content, or does not match the other files.
    #[error("{}: {found}", path.display())]
    Unsupported {
        path: PathBuf,
        /// What was expected and what was found.
        found: String,
    },
    /// There is no model of the given name.
    #[error("{0}")]
    NoModel(String),
    /// The prompt of a conversation leaves no room for an answer.
    #[error("{tokens} tokens with the chat template leave no room for an answer: the model's window is {window}")]
    TooLong { tokens: usize, window: usize },
    /// The chat template does not print a conversation: what it does, with its own message.
    #[error("{0}")]
    Prompt(String),
    /// A text cannot be compressed with these options.
    #[error("{0}")]
    Compression(String),
    #[error("the tokenizer failed: {0}")]
    Tokenize(String),
    /// The model's thread has ended or cannot be started.
    #[error("the model's thread failed: {0}")]
    Thread(String),
    /// No caller waits for the result.
    #[error("canceled: no caller waits for the result")]
    Abandoned,
    /// The error of a batch, shared by all of its rows.
    #[error(transparent)]
    Shared(Arc<LmError>),
    /// A backend does not answer this kind of question.
    #[error("the backend {backend} cannot {question}: set {} to cpu or torch", Setting("asap.scorer.backend"))]
    Refused { backend: &'static str, question: &'static str },
    /// A backend cannot score the rows of a batch; others are not affected.
    #[error("{0}")]
    Rejected(String),
    /// A backend does not answer now; the same command may succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// A backend cannot be opened; with what was expected and what was found.
    #[error("{0}")]
    Backend(String),
    #[error("the GPU failed: {0}")]
    Gpu(String),
    #[error("the loss is NaN or infinite after {steps} steps: lower the learning rate")]
    Diverged { steps: usize },
    #[error("the model failed: {0}")]
    Compute(#[from] candle_core::Error),
}

impl LmError {
    /// Whether the same command may succeed later.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Shared(error) => error.is_unavailable(),
            _ => false,
        }
    }

    pub(crate) fn reading(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Read { path: path.to_path_buf(), source }
    }

    pub(crate) fn writing(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Write { path: path.to_path_buf(), source }
    }

    pub(crate) fn unsupported(path: &Path, found: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_path_buf(), found: found.into() }
    }
}

impl From<tokenizers::Error> for LmError {
    fn from(error: tokenizers::Error) -> Self {
        Self::Tokenize(error.to_string())
    }
}

pub type Result<T> = std::result::Result<T, LmError>;
