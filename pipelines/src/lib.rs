//! Pipelines of asap: how rows reach the SQL functions and where they go.
//!
//! | module | holds |
//! |---|---|
//! | [`beside`] | the folder of what asap keeps beside a table |
//! | [`corpus`] | files of any published shape, read as one table |
//! | `delta_stores` | how Delta tables reach object stores |
//! | [`delta_types`] | what a table can hold |
//! | [`feed`] | rows as examples, in an order that a position finds again |
//! | [`lake`] | what an output holds, and how it is kept in order |
//! | [`location`] | what a user types becomes a URL and a store |
//! | [`log`] | the log of a Delta table, and how a commit gets into it |
//! | [`paid_answers`] | paid answers, kept beside what they were paid for |
//! | [`pruned`] | what every method has in common, around a query that says which steps it keeps |
//! | [`run`] | a pipeline over a corpus, committed to a table |
//! | [`session`] | a session with the functions, settings and rules of asap |
//! | `stopping` | how the slices under way end when a run is asked to stop |
//! | [`system_prompts`] | the system prompt in what the scoring model reads |

pub mod beside;
pub mod corpus;
mod delta_stores;
pub mod delta_types;
pub mod feed;
pub mod lake;
pub mod location;
pub mod log;
pub mod paid_answers;
pub mod pruned;
pub mod run;
pub mod session;
mod stopping;
pub mod system_prompts;
