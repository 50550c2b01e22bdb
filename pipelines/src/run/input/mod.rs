//! The inputs of a run: new and changed files, and Delta tables version by version.

pub(crate) mod content_hashes;
pub(crate) mod delta_inputs;
pub mod files;
pub mod sample;
