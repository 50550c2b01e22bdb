//! The SQL functions and their kernels as a user of the crate sees them.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod documentation;
mod goldens;
mod physical_types;
mod preflight;
mod session;
mod tokenised_once;
