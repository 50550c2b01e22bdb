//! The functions, the fence and the calls as a user of the crate sees them.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod fence;
mod functions;
pub(crate) mod llm;
pub(crate) mod server;
