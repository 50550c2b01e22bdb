//! Small shards of an output, made large ones. Rejects stay as they are: their paths say whose they are.

use std::num::NonZeroU64;

use datafusion::common::Result;
use deltalake_core::kernel::transaction::CommitProperties;
use serde::Serialize;
use serde_json::json;

use crate::outputs::{open, table};

/// What became of the shards.
#[derive(Debug, Serialize)]
pub struct Optimized {
    /// The version of the table.
    pub table_version: u64,
    /// Shards that were merged.
    pub shards_before: u64,
    /// Shards that hold their rows now.
    pub shards_after: u64,
    /// Bytes of the shards that were merged.
    pub bytes_before: u64,
    /// Bytes of the shards that hold their rows now.
    pub bytes_after: u64,
}

/// Merges the shards of an output that are smaller than `target` bytes. No row changes, and who follows the table sees none.
///
/// # Errors
/// If there is no output, if the store fails, or if a run takes back rows of these shards meanwhile.
pub async fn optimize(location: &str, target: NonZeroU64) -> Result<Optimized> {
    let output = open(location).await?;
    let url = table(&output)?.url().clone();
    let said = json!({ "run": output.attempt().to_string() });
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
