//! Language models on this machine: from a folder in Hugging Face's layout to scores, answers and trained models.
//! Nothing here depends on a query engine.
//!
//! A chain is scored in three steps. [`Scorer::prepare`] tokenizes it. [`Scorer::score`] sends it to the model's
//! thread, which packs chains of many callers into batches. A [`backend`] scores a batch. On CPUs, a batch runs through
//! [`decoder`], layer by layer of [`ops`], and the output layer gives surprisal and entropy.
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
//! let chain = QuestionAndSteps::new("2 + 2?".into(), vec!["2 + 2 is 4.", "Done."]);
//! let prepared = scorer.prepare(&[Reading::Chain(chain)], Wanted::FirstTokens)?;
//! let scored = futures::executor::block_on(scorer.score(prepared))?;
//! let Scored::Steps(scores) = &scored[0] else { panic!("{scored:?}") };
//! assert!(scores.first.iter().all(|token| token.is_some_and(|token| token.surprisal > 0.0)));
//! # Ok::<(), asap_lm::LmError>(())
//! ```
//!
//! | module | contains |
//! |---|---|
//! | [`backend`] | the contract of what runs a model: three questions about token ids |
//! | `model` | the CPU's model: [`config`], [`weights`], [`decoder`], `output`; the crate [`ops`] has a layer's operations |
//! | `cuda` | the decoder on an NVIDIA GPU |
//! | `candle` | more families, by candle-transformers |
//! | `text` | tokenizers, prompts, conversations, [`example`]s to train on, token counts of pruned chains |
//! | `score` | scores of chains: requests, batches and caching |
//! | `ask` | [`generate`] answers, [`sampling`], whether an answer survives in a pruned chain |
//! | [`compressor`] | text compression that keeps the likeliest words |
//! | `locate`, `fingerprint` | finds the folder of a model by name; identifies a model by its content |
//! | [`train`] | gradients, optimizer, writing a model folder |

mod ask;
pub mod backend;
#[cfg(feature = "candle")]
pub mod candle;
pub mod compressor;
#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
mod fingerprint;
mod locate;
mod model;
mod score;
#[cfg(test)]
pub(crate) mod testing;
mod text;
pub mod train;

pub use asap_ops as ops;
pub use ask::check::{ANSWER_PROMPT, STATED};
pub use ask::survival::{Stating, stated};
pub use ask::{generate, sampling};
pub use error::{LmError, Result};
pub use fingerprint::{fingerprint, model_files};
pub use locate::{SMALL, TRAINING_BEGUN, TRAINING_ENDED, find, locate, locate_folder, locate_tokenizer, parameters};
pub use model::pass::tokens_read;
pub use model::{config, decoder, weights};
pub use score::counted::TokenCount;
pub use score::loaded::{Computed, Dtype, LoadedModel};
pub use score::row::{QuestionAndSteps, Scores, Wanted};
pub use score::scorer::{Prepared, Reading, Scored, Scorer};
pub use text::conversation::{Call, Turn};
pub use text::exact::{ExactlyPruned, prune_exactly};
pub use text::example;
pub use text::joined::Joined;
pub use text::prompt::{Asked, Message, PromptTemplate};
pub use text::tokenizer::{Encoded, EncodedChain, Tokenizer};
