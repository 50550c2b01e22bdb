//! The SQL functions of asap and the machinery behind them.
//!
//! | module | holds |
//! |---|---|
//! | [`functions`] | one file per SQL function: its declaration and what it gives for a row |
//! | [`function`] | as what a function is registered: what it needs, computes, and which calls it makes |
//! | [`call_metrics`] | what EXPLAIN ANALYZE shows of calls |
//! | [`declaration`], [`columns`], [`output`] | what SQL knows of a function, its arguments row by row, its results |
//! | [`anchor`] | who writes direct thoughts, prunes by them, and answers prompts |
//! | [`llm`] | asking a language model: limiting, paying, keeping |
//! | [`models`] | the scoring model of a session; the language models themselves are the crate `asap-lm` |
//! | [`flights`], `cores` | one computation for equal requests; work on all cores |
//! | `cache_reservation` | what is remembered, counted in the engine's memory |
//! | [`messages`] | conversations as trainers take them |
//! | [`plan`] | what happens to a query plan before and while it runs |
//! | [`settings`], [`typo`] | `SET asap.…`, suggestions for misspelled names |
//!
//! What the functions compute is plain Rust, in the crate `asap-kernels`. Nothing here knows of object stores, tables or a
//! command line.

pub mod anchor;
mod cache_reservation;
pub mod call_metrics;
pub mod columns;
mod cores;
pub(crate) mod declaration;
pub(crate) mod flights;
pub mod function;
pub mod functions;
pub mod llm;
pub mod messages;
pub mod models;
pub mod output;
pub mod plan;
pub mod settings;
pub mod typo;

// In the crate's one test binary, under the name that its users know.
#[cfg(test)]
extern crate self as asap_udfs;
#[cfg(test)]
mod tests;

pub use functions::register_all;
pub use models::Models;
pub use settings::Settings;
