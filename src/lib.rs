//! The faces of asap: thin, each calls the crates beneath.
//!
//! | module | holds |
//! |---|---|
//! | [`cli`] | the commands, each in a module of its name: [`inspect`], [`run`], [`sql`], [`outputs`], [`cache`], [`model`], [`sample`], [`schedule`], [`feed`], [`train`], [`generate`] |
//! | [`builtin`] | the pipelines that asap brings |
//! | [`config`] | settings from files, variables and the command line |
//! | [`failure`] | why a command ended, and its exit code |
//! | [`output`], [`progress`] | what people and machines read |
//! | [`signals`] | being asked to stop |
//! | [`typo`] | known names near a typed one |

pub mod cache;
pub mod cli;
pub mod config;
pub mod failure;
pub mod feed;
pub mod generate;
pub mod inspect;
pub mod model;
pub mod output;
pub mod outputs;
pub mod progress;
pub mod run;
pub mod sample;
pub mod schedule;
pub mod signals;
pub mod sql;
pub mod train;
