//! Merges small shards of an output into large ones. Rejects stay unchanged: their paths name their attempts.

use std::num::NonZeroU64;

use datafusion::common::Result;
use deltalake_core::kernel::transaction::CommitProperties;
use serde::Serialize;
use serde_json::json;

use crate::outputs::{open, table};

#[derive(Debug, Serialize)]
pub struct Optimized {
    pub table_version: u64,
    pub shards_before: u64,
    /// New shards with the same rows.
    pub shards_after: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// Merges the shards of an output that are smaller than `target` bytes. No row changes, and readers that follow the
/// table see no change.
///
/// # Errors
/// If there is no output, if the store fails, or if a run deletes rows of these shards at the same time.
pub async fn optimize(location: &str, target: NonZeroU64) -> Result<Optimized> {
    let output = open(location).await?;
    let url = table(&output)?.url.clone();
    let said = json!({ "run": output.attempt.to_string() });
    let properties =
        CommitProperties::default().with_metadata([("asap".to_string(), said)]).with_cleanup_expired_logs(Some(false));
    let held = deltalake_core::open_table(url).await?;
    let (held, metrics) = held.optimize().with_target_size(target).with_commit_properties(properties).await?;
    Ok(Optimized {
        table_version: held.version().unwrap_or_default(),
        shards_before: metrics.num_files_removed,
        shards_after: metrics.num_files_added,
        bytes_before: metrics.files_removed.total_size as u64,
        bytes_after: metrics.files_added.total_size as u64,
    })
}
