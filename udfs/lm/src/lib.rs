//! Language models on this machine: from a folder in Hugging Face's layout to scores, answers and trained models.
//! Nothing here depends on a query engine.
//!
//! A chain is scored in three steps. [`Scorer::prepare`] tokenizes it. [`Scorer::score`] sends it to the model's
//! thread, which packs chains of many callers into batches. A batch runs through [`decoder`] and its `pass`, `layer` by
//! layer of [`ops`], and [`output`] computes surprisal and entropy from the hidden states.
//!
//! ```
//! use std::sync::Arc;
//! use asap_lm::{Computed, Dtype, LoadedModel, QuestionAndSteps, Reading, SMALL, Scored, Scorer, Tokenizer, Wanted, locate};
//!
//! let (folder, memory) = (locate(SMALL)?, Arc::default());
//! let tokenizer = Arc::new(Tokenizer::load_within(&folder, &memory)?);
//! let model = Arc::new(LoadedModel::load(&folder, Computed::Cpu(Dtype::F32), &tokenizer, &memory)?);
//! let scorer = Scorer::new(&folder, None, tokenizer, model, &memory)?;
//!
//! let chain = QuestionAndSteps { question: "2 + 2?".into(), steps: vec!["2 + 2 is 4.", "Done."] };
//! let prepared = scorer.prepare(&[Reading::Chain(chain)], Wanted::FirstTokens)?;
//! let scored = futures::executor::block_on(scorer.score(prepared))?;
//! let Scored::Steps(scores) = &scored[0] else { panic!("{scored:?}") };
//! assert!(scores.first.iter().all(|token| token.is_some_and(|token| token.surprisal > 0.0)));
//! # Ok::<(), asap_lm::LmError>(())
//! ```
//!
//! | module | contains |
//! |---|---|
//! | [`config`], [`weights`], [`rope`] | files of a model folder; the operations of a layer are in the crate [`ops`] |
//! | `tokenizer`, `tokenizer_json`, `byte_level`, `cuts`, `joined`, `exact` | tokenizers, and token counts of pruned chains |
//! | [`decoder`], `pass`, `layer`, [`output`], `cuda` | the forward pass, on CPU and GPU |
//! | `row`, `scorer`, `loaded`, `thread` | scores of chains: requests, batches and caching |
//! | `check`, `survival` | whether an answer survives in a pruned chain |
//! | `prompt`, [`generate`], [`sampling`] | prompts and conversations, and answers to them |
//! | [`compressor`] | text compression that keeps the likeliest words |
//! | [`example`] | training examples from rows |
//! | `locate`, `fingerprint` | finds the folder of a model by name; identifies a model by its content |
//! | [`train`] | gradients, optimizer, writing a model folder |
//! | [`memo`] | caches within a memory limit |

mod byte_level;
mod check;
pub mod compressor;
pub mod config;
mod counted;
#[cfg(feature = "cuda")]
pub mod cuda;
mod cuts;
pub mod decoder;
mod error;
mod exact;
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
mod survival;
#[cfg(test)]
pub(crate) mod testing;
mod thread;
mod tokenizer;
mod tokenizer_json;
pub mod train;
pub mod weights;

pub use asap_ops as ops;
pub use check::{ANSWER_PROMPT, STATED, Survival};
pub use error::{LmError, Result};
pub use exact::{ExactlyPruned, prune_exactly};
pub use fingerprint::{fingerprint, model_files};
pub use joined::Joined;
pub use loaded::LoadedModel;
pub use locate::{SMALL, locate, locate_folder};
pub use pass::{Packed, tokens_read};
pub use prompt::{Asked, Message, PromptTemplate};
pub use row::{Over, QuestionAndSteps, Scores, Wanted};
pub use scorer::{Left, Prepared, Reading, Scored, Scorer};
pub use spirit::GreedilyPruned;
pub use tokenizer::{Encoded, EncodedChain, Tokenizer};

/// Data type of projections on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    F32,
    /// bf16 weights and rounded inputs, with f32 sums.
    Bf16,
}

/// The device that runs a model, and the data type on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Computed {
    /// The CPU, with projections in this type.
    Cpu(Dtype),
    #[cfg(feature = "cuda")]
    Cuda,
}
