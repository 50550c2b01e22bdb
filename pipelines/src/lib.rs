//! Pipelines of asap: how rows reach the SQL functions, and where the results go.
//!
//! | module | holds |
//! |---|---|
//! | [`answers`] | the answer cache: answers of a language model, kept next to the output |
//! | [`beside`] | the folder `.asap` next to a table |
//! | [`builtin`] | the built-in pipelines |
//! | [`corpus`] | files of any published shape as one table |
//! | [`delta`] | the log of a Delta table, and commits to it |
//! | [`feed`] | rows as training examples, in an order that a position restores |
//! | [`location`] | from what a user types to a URL and a store |
//! | [`outputs`] | commands over an output: status, history, verify, vacuum, optimize, export |
//! | [`pruned`] | the columns that all methods share, around a query that chooses the kept steps |
//! | [`run`] | a pipeline over a corpus, committed to a table |
//! | [`session`] | a session with asap's functions, settings and rules |
//! | `stopping` | how running slices end when a run is asked to stop |
//! | [`system_prompts`] | adds the system prompt to what the scoring model reads |

pub mod answers;
pub mod beside;
pub mod builtin;
pub mod corpus;
pub mod delta;
pub mod feed;
pub mod location;
pub mod outputs;
pub mod pruned;
pub mod run;
pub mod session;
mod stopping;
pub(crate) mod system_prompts;

/// The version of asap, with the commit that it was built from if known.
pub const VERSION: &str = env!("ASAP_VERSION");
