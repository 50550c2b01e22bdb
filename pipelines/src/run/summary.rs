//! What a run did, for people and machines.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use asap_udfs::llm::Usage;

use crate::corpus::FileFailure;
use crate::run::output::receipt::Counts;

/// The figures of a run: of slices that it committed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The pipeline's name.
    pub pipeline: String,
    /// Where rows came from.
    pub from: Vec<String>,
    /// Where rows went.
    pub to: String,
    /// Rows, tokens and steps.
    #[serde(flatten)]
    pub counts: Counts,
    /// Slices that this run committed.
    pub slices: u64,
    /// Slices that were open when it began and are so still, among them those of other parts.
    pub slices_left: u64,
    /// Rows that are open and beyond the limit.
    pub rows_beyond_limit: u64,
    /// Slices that are still open because their shards were deleted before they were committed.
    pub slices_deleted: u64,
    /// Slices that another run committed first.
    pub slices_lost: u64,
    /// Files that were not taken, and why; the next run tries them again.
    pub files_failed: Vec<FileFailure>,
    /// Rows of files that changed since they were read, and that are still in the output as they were.
    pub files_ignored: Vec<String>,
    /// Wall-clock time in seconds.
    pub seconds: f64,
    /// Where the time went: seconds by part, summed over threads.
    pub seconds_by_part: BTreeMap<String, f64>,
    /// The version of the output table after the run.
    pub table_version: Option<u64>,
    /// True if no row of the input was done when the run began.
    #[serde(skip)]
    pub began_empty: bool,
    /// True if there was no open slice.
    pub nothing_to_do: bool,
    /// True if the run was asked to stop before it was through.
    pub interrupted: bool,
    /// What the calls to a language model took.
    pub anchor: Usage,
    /// Who wrote direct thoughts and pruned by them, or answered prompts; None if nobody was asked.
    pub anchored_by: Option<String>,
    /// The model by whose scores steps went; None if none was asked.
    pub scored_by: Option<String>,
    /// What the user should know about the input, such as columns that were renamed.
    pub notes: Vec<String>,
}

impl Summary {
    /// What a commit says of the run that makes it: what the run did until then.
    pub fn of_run(&self) -> Value {
        let Self { counts, slices, slices_lost, files_failed, seconds, anchor, .. } = self;
        json!({
            "counts": counts,
            "slices": slices,
            "slices_lost": slices_lost,
            "files_failed": files_failed.len(),
            "seconds": seconds,
            "anchor": anchor,
        })
    }
}
