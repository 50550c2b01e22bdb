//! Pipelines of asap: how rows reach the SQL functions, and where the results go.

pub mod answers;
pub mod asap_folder;
pub mod builtin;
mod conversations;
pub mod corpus;
pub mod delta;
pub mod feed;
pub mod health;
pub mod location;
pub mod named_tables;
mod object_reader;
mod objects;
pub mod outputs;
mod passed_on;
mod pipeline_session;
pub mod pruned;
pub mod reasons;
pub mod run;
pub mod session;
pub mod shards;
pub mod statement;
mod stopping;
pub(crate) mod system_prompts;
pub mod whole_table;

pub use conversations::PRUNED_BY;

/// The version of asap, with the commit that it was built from if known.
pub const VERSION: &str = env!("ASAP_VERSION");
