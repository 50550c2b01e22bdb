//! The SQL functions of asap and the machinery behind them.
//!
//! | module | holds |
//! |---|---|
//! | [`functions`] | one file per SQL function: documentation, signature, invocation |
//! | [`kernels`] | what the functions compute, as plain Rust without Arrow |
//! | [`lm`] | the language model: tokenizer, decoder, scores, its own thread |
//! | [`llm`] | where direct thoughts and coarse prunings come from |
//! | [`flights`] | one computation for equal requests |
//! | [`messages`] | conversations as trainers take them |
//! | [`plan`] | what happens to a query plan before it runs |
//! | [`settings`] | `SET asap.…` |
//!
//! Nothing here knows of object stores, tables or a command line.

pub mod args;
mod cores;
pub mod flights;
pub mod functions;
pub mod kernels;
pub mod llm;
pub mod lm;
mod memo;
pub mod messages;
pub mod plan;
pub mod settings;
mod vectorized;

pub use functions::register_all;
pub use lm::Models;
pub use settings::Settings;
