//! Pipelines of asap: how rows reach the SQL functions and where they go.
//!
//! | module | holds |
//! |---|---|
//! | [`answers`] | answers of a language model, kept next to what they were paid for |
//! | [`beside`] | the folder `.asap` next to a table |
//! | [`builtin`] | the pipelines that asap ships |
//! | [`corpus`] | files of any published shape, read as one table |
//! | [`delta`] | the log of a Delta table, and how a commit gets into it |
//! | [`feed`] | rows as examples, in an order that a position finds again |
//! | [`location`] | what a user types becomes a URL and a store |
//! | [`outputs`] | commands over an output: status, history, verify, vacuum, optimize, export |
//! | [`pruned`] | what every method has in common, around a query that says which steps it keeps |
//! | [`run`] | a pipeline over a corpus, committed to a table |
//! | [`session`] | a session with the functions, settings and rules of asap |
//! | `stopping` | how the slices in progress end when a run is asked to stop |
//! | [`system_prompts`] | the system prompt in what the scoring model reads |

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
