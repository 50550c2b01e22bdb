//! Questions that need more than one pass: answers, survival of an answer, and greedy pruning.

pub(crate) mod check;
pub mod generate;
pub mod sampling;
pub(crate) mod spirit;
pub(crate) mod survival;
