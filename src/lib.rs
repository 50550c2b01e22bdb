//! The faces of asap: thin, each calls the crates beneath.
//!
//! | module | holds |
//! |---|---|
//! | [`cli`] | the commands, each in a module of its name: [`run`], [`sql`], [`lake`], [`cache`], [`sample`], [`schedule`], [`train`] |
//! | [`config`] | settings from files, variables and the command line |
//! | [`failure`] | why a command ended, and its exit code |
//! | [`output`], [`progress`] | what people and machines read |
//! | [`signals`] | being asked to stop |

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
