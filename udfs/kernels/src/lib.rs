//! The computations of the SQL functions, in plain Rust without a query engine or a language model. Every build profile
//! optimises this crate.
//!
//! | module | holds |
//! |---|---|
//! | [`steps`], [`tags`], [`code_fences`] | splitting of texts: into steps, chain and answer, fenced blocks |
//! | [`gestalt`], [`matching`] | similarity of texts, and matching the steps of two chains (Algorithm 1) |
//! | [`budget`] | the order in which steps are dropped until a chain fits its budget (Algorithm 2) |
//! | [`controls`] | orders that look at no content |
//! | [`functions`] | what a step does, by the words it opens with |
//! | [`trace`] | which stage dropped which step |
//! | [`extractive`] | direct thoughts and coarse chains without a language model |
//! | [`vectorized`] | loops compiled for the vector instructions of the CPU |

pub mod budget;
pub mod code_fences;
pub mod controls;
pub mod extractive;
pub mod functions;
pub mod gestalt;
pub mod matching;
pub mod steps;
pub mod tags;
pub mod trace;
pub mod vectorized;
