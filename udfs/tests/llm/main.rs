//! Stage 1 over real HTTP, against a server that misbehaves on purpose.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod failures;
mod limits;
mod rows;
mod secrets;
#[path = "../support/server.rs"]
mod server;
mod setup;
mod shared_answers;
