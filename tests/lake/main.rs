//! Runs over files and tables that fail, change and race: every input row is in the output or the rejects, once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../udfs/tests/support/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

mod commits;
mod crash;
mod delta_input;
mod delta_rows;
mod delta_table;
mod delta_writers;
mod environment;
mod fifty;
mod files;
mod flags;
mod identity;
mod place;
mod refused;
mod requests;
mod seeded;
mod seen;
mod stopping;
