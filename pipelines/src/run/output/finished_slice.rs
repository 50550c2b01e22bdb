//! Slices that are written and not committed yet, and what their commit says of each.

use std::time::{Duration, Instant};

use datafusion::common::Result;
use deltalake_core::kernel::Add;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};

use crate::run::output::ledger::{Attempt, Before, SliceName};
use crate::run::output::receipt::Receipt;

/// A slice that is written, and what it must find to become done.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The slice.
    pub slice: SliceName,
    /// What the output must hold when it is committed.
    pub before: Before,
    /// What is to be committed.
    pub receipt: Receipt,
    /// Who wrote it: an attempt whose receipts were staged, or this one.
    pub attempt: Attempt,
    /// When it was written.
    pub written: Written,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// By this run; its first shard was begun at this time.
    Begun(Instant),
    Staged,
}

impl Written {
    pub(crate) fn is_older_than(self, age: Duration) -> bool {
        match self {
            Self::Begun(at) => at.elapsed() >= age,
            Self::Staged => true,
        }
    }
}

impl Finished {
    /// Whether all its shards still exist: a vacuum that does not know of this run may have deleted them.
    pub(crate) async fn has_its_shards(&self, output: &dyn ObjectStore, rejects: &dyn ObjectStore) -> Result<bool> {
        let Receipt { output: of_output, rejects: of_rejects, .. } = &self.receipt;
        let shards =
            of_output.iter().map(|shard| (output, shard)).chain(of_rejects.iter().map(|shard| (rejects, shard)));
        for (store, shard) in shards {
            let path = Path::from_url_path(&shard.path).map_err(object_store::Error::from)?;
            match store.head(&path).await {
                Ok(_) => {}
                Err(object_store::Error::NotFound { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

/// What a commit says of a slice that it makes done, so that lost rows can be told from filtered ones later.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SliceRecord {
    pub slice: String,
    pub attempt: String,
    pub rows_out: u64,
    pub rows_rejected: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried_from: Option<String>,
}

impl SliceRecord {
    pub(crate) fn of(finished: &Finished) -> Self {
        let Finished { slice, before, attempt, receipt, .. } = finished;
        Self {
            slice: slice.to_string(),
            attempt: attempt.to_string(),
            rows_out: rows_of(&receipt.output),
            rows_rejected: rows_of(&receipt.rejects),
            retried_from: match before {
                Before::Done(attempt) => Some(attempt.to_string()),
                Before::Open | Before::Other(_) => None,
            },
        }
    }
}

fn rows_of(shards: &[Add]) -> u64 {
    let rows =
        |shard: &Add| serde_json::from_str::<serde_json::Value>(shard.stats.as_deref()?).ok()?["numRecords"].as_u64();
    shards.iter().filter_map(rows).sum()
}
