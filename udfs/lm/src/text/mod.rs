//! Text to tokens: tokenizers, prompts, training examples, and token counts of pruned chains.
//!
//! | module | contains |
//! |---|---|
//! | `tokenizer`, `tokenizer_json`, `byte_level` | a tokenizer, its file, and a faster one for byte-level BPE |
//! | `joined`, `cuts`, `exact` | token counts of joined steps, where texts can be cut, Algorithm 2 with exact counts |
//! | `prompt` | prompts and conversations by the model's chat template |
//! | [`example`] | training examples from rows |

pub(crate) mod byte_level;
pub(crate) mod cuts;
pub(crate) mod exact;
pub mod example;
pub(crate) mod joined;
pub(crate) mod prompt;
pub(crate) mod tokenizer;
pub(crate) mod tokenizer_json;
