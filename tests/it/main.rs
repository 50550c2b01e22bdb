//! asap from the user's view, with its binary and real servers. One test binary, since each links the engine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod anchoring;
mod answers;
mod cli;
mod common;
mod compat;
mod conversations;
#[cfg(feature = "cuda-tests")]
mod cuda;
mod eval;
mod eval_tables;
mod evidence;
mod exam;
mod feed;
mod health;
mod hub;
mod labels;
mod outputs;
mod prompt;
mod readme;
mod runs;
mod schedule;
mod self_training;
mod slt;
mod statistics;
mod stores;
mod support;
mod tokenskip;
mod trace;
mod train;
mod view;
mod view_choices;
mod words;
