//! Language models on this machine: everything between a folder in Hugging Face's layout and a score, an answer or a
//! model that was trained further. Nothing here knows of a query engine.
//!
//! A chain is scored so: [`Scorer::prepare`] makes tokens of it, [`Scorer::score`] hands them to the model's thread, which packs
//! those of many callers into runs; a run goes through [`decoder`] and its `pass`, `layer` by layer of [`ops`], and [`output`]
//! makes surprisal and entropy of the hidden states.
//!
//! | module | holds |
//! |---|---|
//! | [`config`], [`weights`], [`rope`] | what a folder says; what a layer is made of is the crate [`ops`] |
//! | `tokenizer`, `tokenizer_json`, `byte_level`, `cuts`, `joined` | texts as tokens, and their lengths while steps are taken away |
//! | [`decoder`], `pass`, `layer`, [`output`], `cuda` | tokens through the layers, on processors and on a GPU |
//! | `row`, `scorer`, `loaded`, `thread` | a chain's scores: what is asked, packed and remembered |
//! | `prompt`, [`generate`], [`sampling`] | conversations, and answers to them |
//! | [`compressor`] | texts of which the likeliest words stay |
//! | [`example`] | rows as the tokens that a model is trained on |
//! | `locate`, `fingerprint` | where a model lies that is named; what it is, whatever its folder is called |
//! | [`train`] | gradients, optimizer, a model's folder |
//! | [`memo`] | what is remembered |

mod byte_level;
pub mod compressor;
pub mod config;
mod counted;
#[cfg(feature = "cuda")]
pub mod cuda;
mod cuts;
pub mod decoder;
pub mod example;
mod fingerprint;
pub mod generate;
mod greedy;
mod joined;
mod layer;
mod loaded;
mod locate;
pub mod memo;
pub mod output;
mod pass;
mod prompt;
pub mod rope;
mod row;
pub mod sampling;
mod scorer;
#[cfg(test)]
pub(crate) mod testing;
mod thread;
mod tokenizer;
mod tokenizer_json;
pub mod train;
pub mod weights;

use std::path::PathBuf;
use std::sync::Arc;

pub use asap_ops as ops;
pub use fingerprint::{fingerprint, model_files};
pub use greedy::GreedilyPruned;
pub use joined::Joined;
pub use loaded::LoadedModel;
pub use locate::{SMALL, locate, locate_folder};
pub use pass::tokens_read;
pub use prompt::{Asked, Message, PromptTemplate};
pub use row::{Over, Scores, Wanted};
pub use scorer::{Left, Prepared, QuestionAndSteps, Reading, Scored, Scorer};
pub use tokenizer::{Encoded, EncodedChain, Tokenizer};

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

/// The type that projections are computed in on the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 32-bit floats.
    F32,
    /// bf16 weights and rounded inputs, with sums in f32.
    Bf16,
}

/// What a model is computed on, and on the processor in which type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Computed {
    /// On the processor's cores, projections in this type.
    Cpu(Dtype),
    /// On the first NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda,
}
