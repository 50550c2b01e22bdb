//! The SQL functions of asap and their runtime.
//!
//! ```no_run
#![doc = include_str!("../examples/own_session.rs")]
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`functions`] | one file per SQL function: its declaration and its computation for a row |
//! | [`function`] | registered functions: their needs, computations and calls |
//! | [`call_metrics`] | the metrics of calls in EXPLAIN ANALYZE |
//! | [`declaration`], [`columns`], [`output`] | the declaration of a function, its arguments row by row, its results |
//! | [`anchor`] | anchorers: they write direct thoughts, prune by them, and answer prompts |
//! | [`llm`] | settings and errors of language models; the calls themselves are the crate `asap-llm` |
//! | [`bounded`] | functions of the engine whose results may be too long |
//! | `local_model` | the provider `local`: a model in this process |
//! | `needs` | what functions need from their session |
//! | [`models`] | the scoring model of a session; the language models themselves are the crate `asap-lm` |
//! | [`scorers`] | the backends of the scoring model: which one runs it, how it is opened |
//! | `cores` | work on all cores |
//! | [`json`] | JSON text, cut without changes |
//! | [`messages`] | conversations in the format of trainers, and the forms of calls of tools |
//! | [`reading`] | question, chain and answer of a row of a corpus |
//! | [`plan`] | changes to a query plan before and while it runs |
//! | [`trace`] | what pruning did to each step of a chain |
//! | [`settings`] | `SET asap.…` |
//!
//! The algorithms are plain Rust in the crate `asap-kernels`. Nothing here depends on object stores, tables or a
//! command line.

pub mod anchor;
pub mod bounded;
pub mod call_metrics;
pub mod columns;
mod cores;
pub mod declaration;
pub mod function;
pub mod functions;
pub mod json;
pub mod llm;
mod local_model;
mod losses;
pub mod messages;
pub mod models;
mod needs;
pub mod output;
pub mod plan;
pub mod reading;
pub mod scorers;
pub mod settings;
pub mod trace;

// Lets the tests inside the crate use its public name.
#[cfg(test)]
extern crate self as asap_udfs;
#[cfg(test)]
mod tests;

pub use asap_kernels::interrupt;
pub use asap_kernels::typo;
pub use functions::register_all;
pub use models::Models;
pub use settings::Settings;
