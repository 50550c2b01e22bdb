//! Text to tokens: tokenizers, prompts, training examples, and token counts of pruned chains.

pub(crate) mod byte_level;
pub(crate) mod conversation;
pub(crate) mod cuts;
pub(crate) mod exact;
pub mod example;
pub(crate) mod joined;
pub(crate) mod prompt;
pub(crate) mod tokenizer;
