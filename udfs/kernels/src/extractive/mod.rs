//! Anchoring without a language model: a stand-in that makes the whole flow
//! work offline, for nothing, and the same each time.
//!
//! It does not understand a chain. It follows words, values and the names in code from where a chain brings them to
//! where they are used, and weighs them by form, length and rarity within the row. It holds no list of words of any
//! language. What hangs together only by sense it misses, so it keeps the core of a computation or a program well, and
//! of an argument in words less well than a capable language model does.
//!
//! | module | holds |
//! |---|---|
//! | `words` | texts as words: values, names, code, prose |
//! | `lexicon` | the words of a row as numbers, with what they weigh |
//! | `thought` | `cot_anchor`: what is asked, given and to be reached |
//! | `sums` | which value is made of which others |
//! | `chain` | which part of a chain brings which word |
//! | `path` | `cot_coarse`: what is needed, backward from the answer |

mod chain;
mod lexicon;
mod path;
mod sums;
#[cfg(test)]
mod tests;
mod thought;
mod words;

pub use path::core;
pub use thought::write;
