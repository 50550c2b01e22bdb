//! The commands of asap: a thin layer over the other crates.
//!
//! | module | contents |
//! |---|---|
//! | [`cli`] | the command line; each command has a module of its name: [`inspect`], [`run`], [`sql`], [`table`], [`export`], [`model`], [`view`], [`schedule`], [`feed`], [`train`], [`generate`], [`eval`], [`exam`] |
//! | [`config`] | settings from files, variables and the command line |
//! | [`failure`] | why a command failed, and its exit code |
//! | [`output`], [`progress`], `terminal` | output for people and machines |
//! | [`signals`], [`program`] | graceful shutdown; the command that starts this program again |

pub mod cli;
pub mod config;
pub mod eval;
pub mod exam;
pub mod export;
pub mod failure;
pub mod feed;
pub mod generate;
pub mod inspect;
pub mod model;
pub mod output;
pub mod program;
pub mod progress;
mod rows;
pub mod run;
pub mod schedule;
pub mod signals;
pub mod sql;
pub mod statistics;
pub mod table;
mod terminal;
pub mod train;
pub mod view;
