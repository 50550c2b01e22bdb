//! The result of a run, for people and machines.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use asap_llm::Usage;

use crate::corpus::FileFailure;
use crate::run::output::receipt::Counts;

/// The figures of the slices that a run committed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    pub pipeline: String,
    pub from: Vec<String>,
    pub to: String,
    #[serde(flatten)]
    pub counts: Counts,
    pub slices: u64,
    /// Slices that were open when the run started and still are, including those of other parts.
    pub slices_left: u64,
    /// With `--sample`: the number of chosen rows, of how many rows of the input, and the seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Value>,
    /// Open rows beyond the limit.
    pub rows_beyond_limit: u64,
    /// Slices that are still open because their shards were deleted before they were committed.
    pub slices_deleted: u64,
    /// Slices that another run committed first.
    pub slices_lost: u64,
    /// Failed files with the reason; the next run tries them again.
    pub files_failed: Vec<FileFailure>,
    /// Changed files whose old rows stay in the output.
    pub files_ignored: Vec<String>,
    pub seconds: f64,
    /// Seconds by part of the work, summed over threads.
    pub seconds_by_part: BTreeMap<String, f64>,
    pub table_version: Option<u64>,
    /// Whether no row of the input was done when the run started.
    #[serde(skip)]
    pub began_empty: bool,
    /// Whether the pipeline has a budget.
    #[serde(skip)]
    pub has_budget: bool,
    /// Whether there was no open slice.
    pub nothing_to_do: bool,
    /// Whether the run was stopped before it finished.
    pub interrupted: bool,
    /// The cost of the calls to a language model.
    pub anchor: Usage,
    /// The anchorer: wrote direct thoughts and pruned by them, or answered prompts. None if none was called.
    pub anchored_by: Option<String>,
    /// The scoring model. None if none was used.
    pub scored_by: Option<String>,
    pub notes: Vec<String>,
    /// The rows that a failed run read, and those of them that it rejected. Not all of them are committed.
    #[serde(skip)]
    pub read: Option<(u64, u64)>,
}

impl Summary {
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
