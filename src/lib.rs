//! The faces of asap: thin, each calls the crates beneath.

pub mod cache;
pub mod cli;
pub mod config;
pub mod failure;
pub mod lake;
pub mod output;
pub mod progress;
pub mod run;
pub mod sample;
pub mod schedule;
pub mod signals;
pub mod sql;
pub mod train;
