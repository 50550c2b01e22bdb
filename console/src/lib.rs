//! What all commands share: text for people and machines, progress, signals, and why a command failed.
//!
//! | module | contents |
//! |---|---|
//! | [`failure`], [`errors`] | why a command failed, and its exit code; errors of the engine in words for people |
//! | [`output`], [`progress`], [`downloads`], [`terminal`] | output for people and machines |
//! | [`rows`] | the rows of a corpus, in the order of its files |
//! | [`signals`], [`program`] | graceful shutdown; the command that starts this program again |

pub mod downloads;
mod errors;
pub mod failure;
pub mod output;
pub mod program;
pub mod progress;
pub mod rows;
pub mod signals;
pub mod terminal;
