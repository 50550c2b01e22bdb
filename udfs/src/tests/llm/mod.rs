//! Stage 1 over real HTTP, against a server that misbehaves on purpose.

mod completions;
mod failures;
mod limits;
mod refusals;
mod rows;
mod secrets;
pub(crate) mod setup;
mod shared_answers;
