//! The log of a Delta table: its state, and commits to it.
//!
//! ```text
//!   open ── state at version n ──▶ prepare(state) ── actions ──▶ PUT n+1 if absent ──┬─ created ── state at n+1
//!              ▲                                                                     ├─ taken ──── read it ─┐
//!              │                                                                     └─ no reply ─ look ────┤
//!              └────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The `deltalake` crates create, checkpoint, clean and read tables. Runs commit only through this module. A commit is
//! prepared again on each state that it could follow, so it always sees the changes of other writers. A commit whose
//! reply was lost is found by its own bytes. Without a conflict a commit costs one request, however long the log is.

pub(crate) mod actions;
mod open;
mod probe;
mod protocol;
pub(crate) mod stores;
pub mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use asap_kernels::front_end::Again;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::async_reader::{ParquetRecordBatchStream, ParquetRecordBatchStreamBuilder};
use deltalake_core::checkpoints::create_checkpoint_from_table_url_and_cleanup;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use tracing::Instrument;
use url::Url;

pub use crate::delta::actions::{
    DeletionVector, LiveFile, Metadata, Protocol, Removed, Transaction, add, commit, metadata, remove, transaction,
};
pub(crate) use crate::delta::actions::{Line, live_rows, rows_of};
pub use crate::delta::open::{Followed, Since, Version};
pub use crate::delta::probe::{PROBE, check_output};

use crate::object_reader::ObjectReader;
use crate::{location, objects};

pub const FOLDER: &str = "_delta_log";
const CHECKPOINT_EVERY: u64 = 100;
/// Pauses before checking again for a commit with an unknown outcome.
const LOOK_AGAIN: [Duration; 3] = [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(4)];

/// The state of a log at one version.
#[derive(Debug, Clone, Default)]
pub struct LogState {
    pub version: u64,
    pub protocol: Protocol,
    pub metadata: Metadata,
    /// The latest transaction of each application, by the application's ID.
    pub transactions: HashMap<String, Transaction>,
    /// The transactions since the log was opened, each with its table version.
    pub recent: Vec<(u64, Transaction)>,
    pub files: BTreeMap<String, LiveFile>,
    /// Whether a checkpoint could not be read. The commits before it exist, but other programs may need it.
    pub has_damaged_checkpoint: bool,
    /// The removed files that the log still lists, by path.
    pub removed: BTreeMap<String, Removed>,
}

#[derive(Debug)]
pub struct Log {
    pub(crate) url: Url,
    pub(crate) store: Arc<dyn ObjectStore>,
    /// As of the last read.
    pub(crate) state: LogState,
}

/// A commit with an unknown outcome. The files that it names must stay.
#[derive(Debug, thiserror::Error)]
#[error(
    "the outcome of the commit to {table} is unknown: {cause}. No file was removed. {:#}: it checks whether the \
     commit succeeded, and resumes",
    Again
)]
pub struct OutcomeUnknown {
    table: String,
    cause: String,
}

pub(crate) fn store_of(table: &Url) -> Result<Arc<dyn ObjectStore>> {
    let path = Path::from_url_path(table.path()).map_err(object_store::Error::from)?;
    Ok(Arc::new(PrefixStore::new(location::store(table)?, path)))
}

impl Log {
    /// Reads the log of the table at `url`; None if there is no table.
    pub async fn open(url: &Url) -> Result<Option<Self>> {
        let store = store_of(url)?;
        let found = Followed::read(store.as_ref(), url, None).await?;
        Ok(found.map(|found| Self { url: url.clone(), store, state: found.state }))
    }

    /// Creates an empty table, or opens the one that another process created first.
    pub async fn create(
        url: &Url,
        schema: SchemaRef,
        partition_by: &[String],
        properties: HashMap<String, Option<String>>,
    ) -> Result<Self> {
        let first = protocol::first_commit(schema, partition_by, properties).await?;
        let store = store_of(url)?;
        // The creator does not matter: callers compare the properties of the table before they fill it.
        put_or_look(store.as_ref(), url, 0, first).await?;
        let opened = Self::open(url).await?;
        opened.ok_or_else(|| exec_datafusion_err!("{} disappeared while it was created", location::display(url)))
    }

    /// A message if the log has a checkpoint that cannot be read.
    pub(crate) fn fault(&self) -> Option<String> {
        let table = location::display(&self.url);
        let what = "asap reads the commits before it, but other programs may fail: delete this checkpoint";
        let message = || format!("a checkpoint in {table}/{FOLDER} cannot be read. {what}");
        self.state.has_damaged_checkpoint.then(message)
    }

    /// The lines of a commit; None if the log no longer has it.
    pub(crate) async fn read(&self, version: u64) -> Result<Option<Vec<Line>>> {
        read_commit(self.store.as_ref(), version).await
    }

    /// The rows of a live file with some columns, or with all if none is named. Only the needed part of the file is read.
    pub(crate) async fn rows_of(
        &self,
        file: &LiveFile,
        columns: &[&str],
    ) -> Result<ParquetRecordBatchStream<ObjectReader>> {
        let object = objects::of_any_version(file.location()?, file.size);
        let reader = ObjectReader { store: Arc::clone(&self.store), object, prefetch: None, footer: None };
        let mut builder = ParquetRecordBatchStreamBuilder::new(reader).await?;
        if !columns.is_empty() {
            let indices = columns.iter().map(|column| builder.schema().index_of(column));
            let indices = indices.collect::<std::result::Result<Vec<_>, _>>()?;
            let mask = ProjectionMask::roots(builder.parquet_schema(), indices);
            builder = builder.with_projection(mask);
        }
        Ok(builder.build()?)
    }

    pub(crate) async fn refresh(&mut self) -> Result<()> {
        let unreadable = |error| unreadable(&self.url, error);
        while let Some(lines) = self.read(self.state.version + 1).await.map_err(unreadable)? {
            self.state.version += 1;
            lines.into_iter().for_each(|line| self.state.apply(line));
        }
        Ok(())
    }

    /// Commits the actions that `prepare` returns for the state of the log, and prepares them again whenever another
    /// writer was faster. Returns None if there is nothing to commit. Each action is one JSON object on one line.
    ///
    /// # Errors
    /// Errors of `prepare`; [`OutcomeUnknown`] if it cannot be determined whether the commit is in the log.
    pub async fn commit(&mut self, mut prepare: impl FnMut(&LogState) -> Result<Vec<String>>) -> Result<Option<u64>> {
        loop {
            let actions = prepare(&self.state)?;
            if actions.is_empty() {
                return Ok(None);
            }
            let version = self.state.version + 1;
            let span = tracing::info_span!("commit", table = location::display(&self.url), version);
            let put = put_or_look(self.store.as_ref(), &self.url, version, actions.join("\n").into());
            let is_ours = put.instrument(span).await?;
            self.refresh().await?;
            if is_ours {
                self.checkpoint(version).await;
                return Ok(Some(version));
            }
        }
    }

    /// Writes a checkpoint, so that readers skip earlier commits. Without it the table is still valid, but slower to
    /// open.
    async fn checkpoint(&self, version: u64) {
        if !version.is_multiple_of(CHECKPOINT_EVERY) {
            return;
        }
        let written = create_checkpoint_from_table_url_and_cleanup(self.url.clone(), version, Some(false), None).await;
        if let Err(error) = written {
            tracing::warn!(table = location::display(&self.url), version, %error, "no checkpoint was written");
        }
    }
}

impl LogState {
    fn apply(&mut self, line: Line) {
        let Line { txn, add, remove, meta_data, protocol, .. } = line;
        if let Some(txn) = txn {
            self.recent.push((self.version, txn.clone()));
            self.transactions.insert(txn.app_id.clone(), txn);
        }
        // If a deletion vector changes, one commit removes and adds the file, in either order.
        if let Some(remove) = remove {
            if self.files.get(&remove.path).is_some_and(|file| file.deletion_vector == remove.deletion_vector) {
                self.files.remove(&remove.path);
            }
            self.removed.insert(remove.path.clone(), remove);
        }
        if let Some(add) = add {
            self.removed.remove(&add.path);
            self.files.insert(add.path.clone(), add);
        }
        self.metadata = meta_data.unwrap_or_else(|| std::mem::take(&mut self.metadata));
        self.protocol = protocol.unwrap_or_else(|| std::mem::take(&mut self.protocol));
    }
}

pub(crate) fn commit_path(version: u64) -> Path {
    Path::from_iter([FOLDER, &format!("{version:020}.json")])
}

/// The lines of a commit; None if the log no longer has it.
pub(crate) async fn read_commit(store: &dyn ObjectStore, version: u64) -> Result<Option<Vec<Line>>> {
    let bytes = objects::read(store, &commit_path(version)).await?;
    bytes.map(|bytes| actions::parse(&bytes, version)).transpose()
}

/// Creates a commit unless one exists. A store may have created it but lost the reply, or retried the request and then
/// found the commit. The content of the object decides, since no two commits are equal. Returns whether the commit is ours.
async fn put_or_look(store: &dyn ObjectStore, url: &Url, version: u64, bytes: bytes::Bytes) -> Result<bool> {
    let path = commit_path(version);
    let mut cause = None;
    // The store itself retries each request until this timeout.
    let deadline = Instant::now() + location::retry_timeout();
    for pause in LOOK_AGAIN.iter().map(Some).chain([None]) {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match store.put_opts(&path, PutPayload::from(bytes.clone()), options).await {
            Ok(_) => return Ok(true),
            Err(error) => cause = Some(error),
        }
        let looked = match store.get(&path).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        match looked {
            Ok(found) => return Ok(found == bytes),
            Err(object_store::Error::NotFound { .. }) if cause.as_ref().is_some_and(is_refusal) => break,
            Err(_) if Instant::now() > deadline => break,
            // A missing commit may still arrive, so it is put again, which cannot create it twice.
            Err(_) => {
                if let Some(pause) = pause {
                    tokio::time::sleep(*pause).await;
                }
            }
        }
    }
    let table = location::display(url);
    match cause {
        Some(cause) if is_refusal(&cause) => {
            Err(location::failed(&format!("cannot commit to {table}"), DataFusionError::from(cause)))
        }
        cause => {
            let cause = cause.map_or(String::new(), |error| error.to_string());
            Err(DataFusionError::External(Box::new(OutcomeUnknown { table, cause })))
        }
    }
}

/// Whether the request surely had no effect: the store refused it, or the disk could not write it.
fn is_refusal(error: &object_store::Error) -> bool {
    use object_store::Error::{NotImplemented, PermissionDenied, Unauthenticated};
    matches!(error, NotImplemented { .. } | PermissionDenied { .. } | Unauthenticated { .. })
        || location::is_refused_by_disk(error)
}

fn unreadable(url: &Url, error: DataFusionError) -> DataFusionError {
    location::failed(&format!("cannot read the log of {}", location::display(url)), error)
}

#[cfg(test)]
mod tests;
