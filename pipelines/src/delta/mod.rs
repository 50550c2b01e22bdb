//! The log of a Delta table: what it says, and how a commit gets into it.
//!
//! ```text
//!   open ── state at version n ──▶ prepare(state) ── actions ──▶ PUT n+1 if absent ──┬─ created ── state at n+1
//!              ▲                                                                     ├─ taken ──── read it ─┐
//!              │                                                                     └─ no reply ─ look ────┤
//!              └────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Tables are made, checkpointed, cleaned and read by the `deltalake` crates. This is the one way in which runs commit:
//! what is to be committed is prepared anew on every state that it could be committed on, so nothing needs to be known of
//! what another writer did meanwhile; and a commit whose reply was lost is found by its own bytes. It costs one request
//! where nobody was faster, whatever the table's length.

mod actions;
mod follow;
mod open;
mod probe;
mod protocol;
pub(crate) mod stores;
pub mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use deltalake_core::checkpoints::create_checkpoint_from_table_url_and_cleanup;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use url::Url;

use crate::delta::actions::Line;
pub use crate::delta::actions::{
    DeletionVector, LiveFile, Metadata, Protocol, Removed, Transaction, add, commit_info, metadata, remove, transaction,
};
pub use crate::delta::follow::{Followed, Since, Version};
pub use crate::delta::probe::{PROBE, check_output};

use crate::location;

/// The folder of the log in a table.
pub const FOLDER: &str = "_delta_log";
const CHECKPOINT_EVERY: u64 = 100;
/// How long to wait before a commit whose outcome is not known is looked for again.
const LOOK_AGAIN: [Duration; 3] = [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(4)];

/// What a log says at one version.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The version.
    pub version: u64,
    /// What a reader and a writer must know.
    pub protocol: Protocol,
    /// The table's id, schema and properties.
    pub metadata: Metadata,
    /// The last version of each application's transaction.
    pub transactions: HashMap<String, Transaction>,
    /// The transactions that came after the log was opened, each with the version of the table.
    pub recent: Vec<(u64, Transaction)>,
    /// The files whose rows are the table's, by path.
    pub files: BTreeMap<String, LiveFile>,
    /// The files that were taken out of the table and not vacuumed long ago, by path.
    pub removed: BTreeMap<String, Removed>,
}

/// The log of a table that exists.
#[derive(Debug)]
pub struct Log {
    url: Url,
    store: Arc<dyn ObjectStore>,
    state: State,
}

enum Put {
    Created,
    Taken,
}

/// A commit of which it is not known whether it is in the log: what it names must stay.
#[derive(Debug, thiserror::Error)]
#[error(
    "it is not known whether the commit to {table} succeeded: {cause}. Nothing was removed; the same command finds out and \
     goes on"
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
    ///
    /// # Errors
    /// If the store fails, or if the log has a gap or holds what cannot be read.
    pub async fn open(url: &Url) -> Result<Option<Self>> {
        let store = store_of(url)?;
        let found = open::read(store.as_ref(), None).await.map_err(|error| unreadable(url, error))?;
        Ok(found.map(|found| Self { url: url.clone(), store, state: found.state }))
    }

    /// Makes an empty table, or opens the one that another process made first.
    ///
    /// # Errors
    /// If the store fails, or if a table cannot have this schema.
    pub async fn create(
        url: &Url,
        schema: SchemaRef,
        partition_by: &[String],
        properties: HashMap<String, Option<String>>,
    ) -> Result<Self> {
        let first = protocol::first_commit(schema, partition_by, properties).await?;
        let store = store_of(url)?;
        // Who made it does not matter: whoever fills it compares its properties first.
        put_or_look(store.as_ref(), url, 0, first).await?;
        let opened = Self::open(url).await?;
        opened.ok_or_else(|| exec_datafusion_err!("{} vanished while it was made", location::display(url)))
    }

    /// What the log says, as far as it was read.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The table's folder.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The store, rooted at the table's folder.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    pub(crate) async fn refresh(&mut self) -> Result<()> {
        while let Some(lines) = read_commit(self.store.as_ref(), self.state.version + 1)
            .await
            .map_err(|error| unreadable(&self.url, error))?
        {
            self.state.version += 1;
            lines.into_iter().for_each(|line| self.state.apply(line));
        }
        Ok(())
    }

    /// Commits what `prepare` makes of the log's state, and prepares it again whenever somebody else was faster; None if
    /// it has nothing (any more) to commit. A line of an action is one JSON object.
    ///
    /// # Errors
    /// What `prepare` refuses; [`OutcomeUnknown`] if it cannot be found out whether the commit is in the log.
    pub async fn commit(&mut self, mut prepare: impl FnMut(&State) -> Result<Vec<String>>) -> Result<Option<u64>> {
        loop {
            let actions = prepare(&self.state)?;
            if actions.is_empty() {
                return Ok(None);
            }
            let version = self.state.version + 1;
            let put = put_or_look(self.store.as_ref(), &self.url, version, actions.join("\n").into()).await?;
            self.refresh().await?;
            if matches!(put, Put::Created) {
                self.checkpoint(version).await;
                return Ok(Some(version));
            }
        }
    }

    /// A checkpoint spares readers the commits before it; without one the table is as right, and only slower to open.
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

impl State {
    fn apply(&mut self, line: Line) {
        let Line { txn, add, remove, meta_data, protocol } = line;
        if let Some(txn) = txn {
            self.recent.push((self.version, txn.clone()));
            self.transactions.insert(txn.app_id.clone(), txn);
        }
        // A file whose deletion vector changes is removed and added in one commit, in either order.
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

async fn read_commit(store: &dyn ObjectStore, version: u64) -> Result<Option<Vec<Line>>> {
    match store.get(&commit_path(version)).await {
        Ok(found) => Ok(Some(actions::parse(&found.bytes().await?, version)?)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Puts a commit where there is none. A store may have made it and lost the reply, also to a request that was sent again by
/// itself and then finds the commit there: what lies there tells, since no two commits are equal.
async fn put_or_look(store: &dyn ObjectStore, url: &Url, version: u64, bytes: bytes::Bytes) -> Result<Put> {
    let path = commit_path(version);
    let mut cause = None;
    // The store itself retries each request until this timeout.
    let deadline = Instant::now() + location::retry_timeout();
    for pause in LOOK_AGAIN.iter().map(Some).chain([None]) {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match store.put_opts(&path, PutPayload::from(bytes.clone()), options).await {
            Ok(_) => return Ok(Put::Created),
            Err(error) => cause = Some(error),
        }
        let looked = match store.get(&path).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        match looked {
            Ok(found) if found == bytes => return Ok(Put::Created),
            Ok(_) => return Ok(Put::Taken),
            Err(object_store::Error::NotFound { .. }) if cause.as_ref().is_some_and(is_refusal) => break,
            Err(_) if Instant::now() > deadline => break,
            // A commit that is not there yet may still come, so it is put again, which cannot make it twice.
            Err(_) => {
                if let Some(pause) = pause {
                    tokio::time::sleep(*pause).await;
                }
            }
        }
    }
    let refused = cause.as_ref().is_some_and(is_refusal);
    let (table, cause) = (location::display(url), cause.map_or(String::new(), |error| error.to_string()));
    if refused {
        return exec_err!("cannot commit to {table}: {cause}");
    }
    Err(DataFusionError::External(Box::new(OutcomeUnknown { table, cause })))
}

/// Whether a store has said that it will not do this, rather than failed at it.
fn is_refusal(error: &object_store::Error) -> bool {
    use object_store::Error::{NotImplemented, PermissionDenied, Unauthenticated};
    matches!(error, NotImplemented { .. } | PermissionDenied { .. } | Unauthenticated { .. })
}

fn unreadable(url: &Url, error: DataFusionError) -> DataFusionError {
    location::failed(&format!("cannot read the log of {}", location::display(url)), error)
}

#[cfg(test)]
mod tests;
