//! Written slices that are not committed yet, and their records in a commit.

use std::time::{Duration, Instant};

use datafusion::common::Result;
use deltalake_core::kernel::Add;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};

use crate::delta;
use crate::objects::existing;
use crate::run::ledger::{Attempt, Before, SliceName};
use crate::run::output::receipt::Receipt;

/// A written slice, and the condition under which it becomes done.
#[derive(Debug, Clone)]
pub struct Finished {
    pub slice: SliceName,
    pub before: Before,
    pub receipt: Receipt,
    /// The attempt that wrote it: an earlier one with staged receipts, or this one.
    pub attempt: Attempt,
    /// When this run started its first shard; None if its receipt is staged.
    pub begun_at: Option<Instant>,
}

impl Finished {
    pub(crate) fn is_older_than(&self, age: Duration) -> bool {
        self.begun_at.is_none_or(|at| at.elapsed() >= age)
    }

    /// Whether all its shards still exist: a vacuum that did not see this run may have deleted them.
    pub(crate) async fn has_its_shards(&self, output: &dyn ObjectStore, rejects: &dyn ObjectStore) -> Result<bool> {
        let Receipt { output: of_output, rejects: of_rejects, .. } = &self.receipt;
        let shards =
            of_output.iter().map(|shard| (output, shard)).chain(of_rejects.iter().map(|shard| (rejects, shard)));
        for (store, shard) in shards {
            let path = Path::from_url_path(&shard.path).map_err(object_store::Error::from)?;
            if existing(store.head(&path).await)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The record of a done slice in a commit, which distinguishes lost rows from filtered ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SliceRecord {
    pub slice: String,
    pub attempt: String,
    /// Rows read: in the output, rejected or filtered.
    pub rows_in: u64,
    pub rows_out: u64,
    pub rows_rejected: u64,
    pub rows_filtered: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_from: Option<String>,
}

impl SliceRecord {
    pub(crate) fn of(finished: &Finished) -> Self {
        let Finished { slice, before, attempt, receipt, .. } = finished;
        Self {
            slice: slice.to_string(),
            attempt: attempt.to_string(),
            rows_in: receipt.counts.rows_in,
            rows_filtered: receipt.counts.rows_filtered,
            rows_out: rows_of(&receipt.output),
            rows_rejected: rows_of(&receipt.rejects),
            retried_from: match before {
                Before::Done(attempt) => Some(attempt.to_string()),
                Before::Open | Before::Other(_) => None,
            },
        }
    }
}

pub(crate) fn rows_of(shards: &[Add]) -> u64 {
    shards.iter().filter_map(|shard| delta::rows_of(shard.stats.as_deref())).sum()
}
