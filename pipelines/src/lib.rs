//! Pipelines of asap: how rows reach the SQL functions and where they go.
//!
//! | module | holds |
//! |---|---|
//! | [`answers`] | paid answers, kept beside what they were paid for |
//! | [`corpus`] | files of any published shape, read as one table |
//! | `delta_stores` | how Delta tables reach object stores |
//! | [`delta_types`] | what a table can hold |
//! | [`location`] | what a user types becomes a URL and a store |
//! | [`run`] | a pipeline over a corpus, committed to a table |
//! | [`session`] | a session with the functions, settings and rules of asap |

pub mod answers;
pub mod corpus;
mod delta_stores;
pub mod delta_types;
pub mod location;
pub mod run;
pub mod session;
