//! The expected rows of each input file in an output, according to its commits.

use std::collections::{HashMap, HashSet};

use datafusion::common::{Result, exec_datafusion_err};
use object_store::ObjectStoreExt;
use serde_json::Value;

use crate::delta::{Log, commit_path};
use crate::run::output::finished_slice::SliceRecord;
use crate::run::output::ledger::{Attempt, Ledger, SliceName};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    pub output: u64,
    pub rejected: u64,
}

/// A slice and its attempt: the commit that records them has the counts.
type Done = (SliceName, Attempt);

/// The rows of every file of a ledger. A file has no entry if commits of its slices are no longer in the log.
pub(crate) async fn expected(log: &Log, ledger: &Ledger) -> Result<HashMap<String, Rows>> {
    let mut wanted: HashSet<Done> = ledger.files().flat_map(|(path, _)| ledger.slices(path)).collect();
    // Attempts whose rejects were retried: of their slices only the output rows remain.
    let mut retried: HashSet<Done> = HashSet::new();
    let mut rows: HashMap<String, Rows> = HashMap::new();
    for version in (0..=log.state().version).rev() {
        if wanted.is_empty() && retried.is_empty() {
            break;
        }
        let bytes = match log.store().get(&commit_path(version)).await {
            Ok(found) => found.bytes().await?,
            // A checkpoint replaces the older commits.
            Err(object_store::Error::NotFound { .. }) => break,
            Err(error) => return Err(error.into()),
        };
        for record in records(&bytes, version)? {
            let done: Done = (record.slice.parse()?, record.attempt.parse()?);
            let is_last = wanted.remove(&done);
            if !is_last && !retried.remove(&done) {
                continue;
            }
            let of_file = rows.entry(done.0.path.clone()).or_default();
            of_file.output += record.rows_out;
            of_file.rejected += if is_last { record.rows_rejected } else { 0 };
            if let Some(before) = record.retried_from {
                retried.insert((done.0, before.parse()?));
            }
        }
    }
    for (slice, _) in wanted.iter().chain(&retried) {
        rows.remove(&slice.path);
    }
    Ok(rows)
}

fn records(bytes: &[u8], version: u64) -> Result<Vec<SliceRecord>> {
    let unreadable =
        |error: serde_json::Error| exec_datafusion_err!("version {version} of the log cannot be read: {error}");
    for line in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        let mut line = line.map_err(unreadable)?;
        let Some(info) = line.get_mut("commitInfo").and_then(|info| info.get_mut("asap")) else { continue };
        let slices = info["slices"].take();
        return if slices.is_array() { serde_json::from_value(slices).map_err(unreadable) } else { Ok(vec![]) };
    }
    Ok(vec![])
}
