//! What the SQL functions compute, as plain Rust: nothing here knows of a query engine or a language model. These are the
//! loops that every build optimises.
//!
//! | module | holds |
//! |---|---|
//! | [`steps`], [`tags`], [`code_fences`] | how a text is cut: into steps, chain and answer, fenced blocks |
//! | [`gestalt`], [`matching`] | how similar texts are, and the steps of one chain in another (Algorithm 1) |
//! | [`budget`] | which steps go until a chain fits its budget (Algorithm 2) |
//! | [`trace`] | which stage dropped which step |
//! | [`extractive`] | direct thoughts and coarse prunings without a language model |
//! | [`vectorized`] | loops for the machine's vector instructions |

pub mod budget;
pub mod code_fences;
pub mod extractive;
pub mod gestalt;
pub mod matching;
pub mod steps;
pub mod tags;
pub mod trace;
pub mod vectorized;
