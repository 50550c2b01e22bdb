//! Questions that need more than one pass: answers, and survival of an answer.

pub(crate) mod check;
pub mod generate;
pub mod sampling;
pub(crate) mod survival;
