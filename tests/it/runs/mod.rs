//! Runs over files and tables that fail, change and race: every input row is in the output or the rejects, once.

mod commits;
mod crash;
mod delta_input;
mod delta_rows;
mod delta_table;
mod delta_writers;
mod disturbed;
mod environment;
mod faults;
mod files;
mod flags;
mod identity;
mod missing;
mod outage;
pub(crate) mod place;
mod refused;
mod requests;
pub(crate) mod seeded;
mod seen;
mod stopping;
