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
mod error;
pub mod example;
mod fingerprint;
pub mod generate;
mod joined;
mod layer;
mod loaded;
mod locate;
pub mod memo;
pub mod output;
mod pass;
mod prompt;
pub(crate) mod rope;
mod row;
pub mod sampling;
mod scorer;
mod spirit;
#[cfg(test)]
pub(crate) mod testing;
mod thread;
mod tokenizer;
mod tokenizer_json;
pub mod train;
pub mod weights;

pub use asap_ops as ops;
pub use error::{LmError, Result};
pub use fingerprint::{fingerprint, model_files};
pub use joined::Joined;
pub use loaded::LoadedModel;
pub use locate::{SMALL, locate, locate_folder};
pub use pass::tokens_read;
pub use prompt::{Asked, Message, PromptTemplate};
pub use row::{Over, Scores, Wanted};
pub use scorer::{Left, Prepared, QuestionAndSteps, Reading, Scored, Scorer};
pub use spirit::GreedilyPruned;
pub use tokenizer::{Encoded, EncodedChain, Tokenizer};

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
