//! The status of an output relative to its input.

use std::collections::BTreeMap;

use asap_udfs::scorers::{BACKEND, DTYPE};
use datafusion::common::Result;
use serde::Serialize;

use crate::answers::{self, Totals};
use crate::location;
use crate::outputs::{open, table};
use crate::run::output::provenance::Provenance;
use crate::run::output::rejects;
use crate::run::says_finished;
use crate::run::unusual::pruned_by;

#[derive(Debug, Serialize)]
pub struct Status {
    pub output: String,
    /// What made the output, as recorded by the run that created it; None if an earlier asap did.
    pub made_by: Option<Provenance>,
    /// The parts of the pipeline by name; empty if an earlier asap filled the output.
    pub pipeline: BTreeMap<String, String>,
    /// The table generation of the rows.
    pub generation: u64,
    pub table_version: u64,
    pub rows: u64,
    pub shards: u64,
    pub bytes: u64,
    pub rejects: BTreeMap<String, u64>,
    /// Input rows that are done, including deleted rows that are still in the files of a table.
    pub rows_done: u64,
    pub files_done: u64,
    pub files_in_part: Vec<InPart>,
    /// Whether the last run found no rows left to do.
    pub finished: bool,
    /// When a run found this, in milliseconds since 1970 (UTC).
    pub finished_at: Option<i64>,
    /// Input rows that were left out because they are beyond the limit.
    pub rows_beyond_limit: u64,
    pub answers: Totals,
    /// The sampling parameters that rows did not get from their requests, because the endpoint refused them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoint_defaults: Vec<&'static str>,
}

impl Status {
    /// A note for work that prunes chains, if a run has pruned those of this output.
    pub fn pruned(&self) -> Option<String> {
        pruned_by(&self.output, self.made_by.as_ref()?)
    }
}

#[derive(Debug, Serialize)]
pub struct InPart {
    pub file: String,
    pub done: u64,
    pub rows: u64,
}

/// Returns the status of the output at a location.
pub async fn status(location: &str) -> Result<Status> {
    let output = open(location).await?;
    let state = &table(&output)?.state;
    let ledger = &output.ledger;
    let in_part = ledger.files().filter(|(_, held)| held.rows_done() < held.rows);
    let mut files_in_part: Vec<_> =
        in_part.map(|(file, held)| InPart { file: file.clone(), done: held.rows_done(), rows: held.rows }).collect();
    files_in_part.sort_by(|one, other| one.file.cmp(&other.file));
    let mut pipeline = output.identity().map(|identity| identity.parts().clone()).unwrap_or_default();
    if !pipeline.is_empty() {
        // An identity leaves out the default scores, so that the outputs of an earlier asap stay the same.
        let backend = pipeline.entry(BACKEND.to_string()).or_insert("cpu".to_string());
        if backend == "cpu" {
            pipeline.entry(DTYPE.to_string()).or_insert("f32".to_string());
        }
    }
    Ok(Status {
        output: location::display(&output.url),
        made_by: output.provenance(),
        pipeline,
        generation: ledger.generation,
        table_version: state.version,
        rows: state.files.values().filter_map(|shard| shard.rows()).sum(),
        shards: state.files.len() as u64,
        bytes: state.files.values().map(|shard| shard.size).sum(),
        rejects: rejects::by_status(&output).await?,
        rows_done: ledger.rows,
        files_done: ledger.files().count() as u64 - files_in_part.len() as u64,
        files_in_part,
        finished: says_finished(state),
        finished_at: output.finished_at(),
        rows_beyond_limit: output.rows_beyond_limit(),
        answers: answers::survey(&answers::of_output(&output.url)?).await?,
        endpoint_defaults: output.endpoint_defaults(),
    })
}
