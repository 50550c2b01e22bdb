//! Merges small shards of an output into large ones. Rejects stay unchanged: their paths name their attempts.

use std::num::NonZeroU64;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, exec_err};
use deltalake_core::kernel::transaction::CommitProperties;
use deltalake_core::kernel::transaction::TransactionError::{self, LogStoreError};
use deltalake_core::logstore::{CommitOrBytes, LogStore, LogStoreConfig, LogStoreRef};
use deltalake_core::{DeltaResult, DeltaTable, DeltaTableError};
use object_store::ObjectStore;
use serde::Serialize;
use serde_json::json;
use url::Url;
use uuid::Uuid;

use crate::delta::{Log, actions};
use crate::location;
use crate::outputs::{open, table};
use crate::run::RunError;

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
/// If there is no output, if the store fails, or [`RunError::OtherCommit`] if another commit merges these shards or deletes
/// rows of them at the same time.
pub async fn optimize(location: &str, target: NonZeroU64) -> Result<Optimized> {
    let output = open(location).await?;
    let url = table(&output)?.url.clone();
    let said = json!({ "run": output.attempt.to_string() });
    let properties =
        CommitProperties::default().with_metadata([("asap".to_string(), said)]).with_cleanup_expired_logs(Some(false));
    let inner = deltalake_core::open_table(url.clone()).await?.log_store();
    let mut held = DeltaTable::new(Arc::new(Merges { inner, url }));
    held.load().await?;
    let merged = held.optimize().with_target_size(target).with_commit_properties(properties).await;
    let (held, metrics) = merged.map_err(|error| match error {
        DeltaTableError::Transaction { source: LogStoreError { source, .. } } => {
            source.downcast().map_or_else(DataFusionError::External, |error| *error)
        }
        other => other.into(),
    })?;
    Ok(Optimized {
        table_version: held.version().unwrap_or_default(),
        shards_before: metrics.num_files_removed,
        shards_after: metrics.num_files_added,
        bytes_before: metrics.files_removed.total_size as u64,
        bytes_after: metrics.files_added.total_size as u64,
    })
}

/// Commits merged shards like all else of an output: once, even if the reply is lost, and only if the table still has each
/// shard that they replace. By itself, the `deltalake` engine sees no conflict between two merges, which duplicates rows.
struct Merges {
    inner: LogStoreRef,
    url: Url,
}

impl Merges {
    async fn commit(&self, version: u64, commit: &CommitOrBytes) -> Result<()> {
        let CommitOrBytes::LogBytes(bytes) = commit else {
            return exec_err!(
                "the deltalake engine has put the commit to {} into a file",
                location::display(&self.url)
            );
        };
        let lines: Vec<String> = String::from_utf8_lossy(bytes).lines().map(str::to_string).collect();
        let removed: Vec<_> = actions::parse(bytes, version)?.into_iter().filter_map(|line| line.remove).collect();
        let gone = || RunError::OtherCommit { table: location::display(&self.url) };
        let mut log = Log::open(&self.url).await?.ok_or_else(gone)?;
        let merge = log.commit(|state| {
            let is_live = removed.iter().all(|shard| {
                state.files.get(&shard.path).is_some_and(|live| live.deletion_vector == shard.deletion_vector)
            });
            if is_live { Ok(lines.clone()) } else { Err(gone().into()) }
        });
        merge.await.map(drop)
    }
}

#[async_trait]
impl LogStore for Merges {
    fn name(&self) -> String {
        self.inner.name()
    }

    async fn read_commit_entry(&self, version: u64) -> DeltaResult<Option<Bytes>> {
        self.inner.read_commit_entry(version).await
    }

    async fn write_commit_entry(&self, version: u64, commit: CommitOrBytes, _: Uuid) -> Result<(), TransactionError> {
        let failed = |error: DataFusionError| LogStoreError { msg: error.to_string(), source: Box::new(error) };
        self.commit(version, &commit).await.map_err(failed)
    }

    async fn abort_commit_entry(&self, version: u64, commit: CommitOrBytes, id: Uuid) -> Result<(), TransactionError> {
        self.inner.abort_commit_entry(version, commit, id).await
    }

    async fn get_latest_version(&self, start: u64) -> DeltaResult<u64> {
        self.inner.get_latest_version(start).await
    }

    fn object_store(&self, id: Option<Uuid>) -> Arc<dyn ObjectStore> {
        self.inner.object_store(id)
    }

    fn root_object_store(&self, id: Option<Uuid>) -> Arc<dyn ObjectStore> {
        self.inner.root_object_store(id)
    }

    fn config(&self) -> &LogStoreConfig {
        self.inner.config()
    }
}
