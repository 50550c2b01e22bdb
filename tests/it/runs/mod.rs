//! Runs over files and tables that fail, change and race: every input row is in the output or the rejects, once.

mod commits;
mod crash;
mod delta_input;
mod delta_rows;
pub(crate) mod delta_table;
mod delta_writers;
mod disturbed;
mod faults;
mod files;
pub(crate) mod place;
mod requests;
pub(crate) mod seeded;
mod seen;
mod stopping;
