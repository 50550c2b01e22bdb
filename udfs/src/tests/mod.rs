//! Tests of the functions, the fence and the calls through the public API.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod fence;
pub(crate) mod functions;
pub(crate) mod llm;
