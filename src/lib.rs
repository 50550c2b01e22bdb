//! The commands of asap: a thin layer over the other crates.
//!
//! | module | contents |
//! |---|---|
//! | [`cli`] | the command line; each command has a module of its name: [`inspect`], [`run`], [`sql`], [`table`], [`export`], [`model`], [`view`], [`schedule`], [`feed`], [`train`], [`generate`], [`eval`], [`exam`] |
//! | [`config`] | settings from files, variables and the command line |
//!
//! The crate `asap-console` has what all commands share: text, progress, signals and failures.

pub mod cli;
pub mod config;
#[cfg(feature = "eval")]
pub mod eval;
#[cfg(feature = "eval")]
pub mod exam;
pub mod export;
pub mod feed;
pub mod generate;
pub mod inspect;
pub mod model;
pub mod run;
#[cfg(feature = "schedule")]
pub mod schedule;
pub mod sql;
pub mod table;
#[cfg(feature = "train")]
pub mod train;
#[cfg(feature = "view")]
pub mod view;

pub use asap_console::{downloads, failure, output, program, progress, rows, signals, terminal};
