//! Questions that need more than one pass: answers, survival of an answer, and greedy pruning.
//!
//! | module | contains |
//! |---|---|
//! | [`generate`], [`sampling`] | answers of a model to prompts |
//! | `check`, `survival` | whether an answer survives in a pruned chain |
//! | `spirit` | greedy pruning by perplexity (SPIRIT) |

pub(crate) mod check;
pub mod generate;
pub mod sampling;
pub(crate) mod spirit;
pub(crate) mod survival;
