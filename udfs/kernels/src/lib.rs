//! The computations of the SQL functions, in plain Rust without a query engine or a language model. Every build profile
//! optimises this crate.
//!
//! | module | holds |
//! |---|---|
//! | [`steps`], [`tags`], [`code_fences`], [`rendered`] | splitting of texts: into steps, chain and answer, fenced blocks, turns |
//! | [`gestalt`], [`matching`] | similarity of texts, and matching the steps of two chains (Algorithm 1) |
//! | [`budget`] | the order in which steps are dropped until a chain fits its budget (Algorithm 2) |
//! | [`controls`] | orders that look at no content |
//! | [`functions`] | what a step does, by the words it opens with |
//! | [`selective`] | the units of a text with the most self-information (Selective Context) |
//! | [`health`] | faults of traces: loops, mixed scripts, near-duplicate and known questions |
//! | [`front_end`], [`typo`] | how messages spell flags and settings, and suggestions for misspelled names |
//! | [`interrupt`] | whether the process is asked to end |
//! | [`memo`] | caches within a memory limit |
//! | [`extractive`] | direct thoughts and coarse chains without a language model |
//! | [`mod@vectorized`] | loops compiled for the vector instructions of the CPU |
//!
//! ```
//! use asap_kernels::{budget, gestalt::Gestalt, steps::steps};
//!
//! let chain = steps("Hm.\n\n2 + 2 is 4.\n\nDone.");
//! assert_eq!(chain, ["Hm.", "2 + 2 is 4.", "Done."]);
//! let mut gestalt = Gestalt::new(false);
//! gestalt.set_b("2 + 2 = 4.");
//! assert!(gestalt.ratio(chain[1]) > 0.8);
//! // Refinement removes the step with the lowest score first.
//! assert_eq!(budget::by_score(&[Some(0.1), Some(3.2), Some(1.4)]), [0, 2, 1]);
//! ```

pub mod budget;
pub mod code_fences;
pub mod controls;
pub mod extractive;
pub mod front_end;
pub mod functions;
pub mod gestalt;
pub mod health;
pub mod interrupt;
pub mod matching;
pub mod memo;
pub mod rendered;
pub mod selective;
pub mod steps;
pub mod tags;
pub mod typo;
pub mod vectorized;
mod white_space;
