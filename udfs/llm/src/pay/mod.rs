//! What a call costs, and how each answer is paid once.

pub mod answers;
pub mod meter;
pub mod store;
