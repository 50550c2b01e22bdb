//! What the SQL functions compute, as plain Rust without Arrow.

pub mod budget;
pub mod gestalt;
pub mod matching;
pub mod steps;
pub mod tags;
pub mod trace;
