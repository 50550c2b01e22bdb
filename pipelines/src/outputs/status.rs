//! What an output holds of its input.

use std::collections::BTreeMap;

use datafusion::common::Result;
use serde::Serialize;

use crate::answers;
use crate::answers::Totals;
use crate::location;
use crate::outputs::{open, rejects_by_status, table};
use crate::run::output::provenance::Provenance;

/// What an output holds.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Where it lies.
    pub output: String,
    /// Who made it, in the words of the run that began it; none if an earlier asap did.
    pub made_by: Option<Provenance>,
    /// The parts of the pipeline that fills it, by their names; none if an earlier asap filled it.
    pub pipeline: BTreeMap<String, String>,
    /// Rows of one generation are the output's.
    pub generation: u64,
    /// The version of the table.
    pub table_version: u64,
    /// Rows of the output.
    pub rows: u64,
    /// Shards that hold them.
    pub shards: u64,
    /// Bytes of the shards.
    pub bytes: u64,
    /// Rejected rows by status.
    pub rejects: BTreeMap<String, u64>,
    /// Rows of the input that are done, deleted ones included that lie in the files of a table.
    pub rows_done: u64,
    /// Files of the input all of whose rows are done.
    pub files_done: u64,
    /// Files of the input some of whose rows are done.
    pub files_in_part: Vec<InPart>,
    /// Whether the last run found that nothing of its input is left to do.
    pub finished: bool,
    /// When a run found that, in milliseconds since 1970 (UTC).
    pub finished_at: Option<i64>,
    /// Rows of the input that it left because they are beyond its limit.
    pub rows_beyond_limit: u64,
    /// Paid answers that are kept.
    pub answers: Totals,
}

/// A file some of whose rows are done.
#[derive(Debug, Serialize)]
pub struct InPart {
    /// Its path in the input.
    pub file: String,
    /// Rows that are done.
    pub done: u64,
    /// Rows that it has.
    pub rows: u64,
}

/// Says what the output at a location holds.
///
/// # Errors
/// If there is none, or if it cannot be read.
pub async fn status(location: &str) -> Result<Status> {
    let output = open(location).await?;
    let state = table(&output)?.state();
    let ledger = output.ledger();
    let in_part = ledger.files().filter(|(_, held)| held.rows_done() < held.rows);
    let mut files_in_part: Vec<_> =
        in_part.map(|(file, held)| InPart { file: file.clone(), done: held.rows_done(), rows: held.rows }).collect();
    files_in_part.sort_by(|one, other| one.file.cmp(&other.file));
    let answers = answers::survey(&answers::of_output(output.url())?).await?;
    Ok(Status {
        output: location::display(output.url()),
        made_by: output.provenance(),
        pipeline: output.identity().map(|identity| identity.parts().clone()).unwrap_or_default(),
        generation: ledger.generation,
        table_version: state.version,
        rows: state.files.values().filter_map(|shard| shard.rows()).sum(),
        shards: state.files.len() as u64,
        bytes: state.files.values().map(|shard| shard.size).sum(),
        rejects: rejects_by_status(&output).await?,
        rows_done: ledger.rows,
        files_done: ledger.files().count() as u64 - files_in_part.len() as u64,
        files_in_part,
        finished: output.is_finished(),
        finished_at: output.finished_at(),
        rows_beyond_limit: output.rows_beyond_limit(),
        answers: Totals::of(&answers),
    })
}
