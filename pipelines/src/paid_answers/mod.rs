//! Paid answers, kept beside what they were paid for: a log of segments in a folder on any object store.
//!
//! ```text
//!   keep ──┐
//!   keep ──┼─ group: 64 answers, 250 ms, or all that are under way ── one object, written once ── all keeps return
//!   keep ──┘
//!   open ── list ── the table of each segment ── index: key -> segment, offset, length
//!   get  ── index ── the answer's own bytes
//! ```
//!
//! An answer is durable when [`keep`](AnswerStore::keep) returns: its object is on the store, and on a disk of this machine synced.
//! What is torn or changed is found by its checks ([`segment`]) and dropped with a warning. Of two answers to one
//! request the first wins, in the order of the segments' names, which is the order of their writing.
//!
//! Any number of processes may use a folder at once, since each writes names of its own and none changes an object. Before it
//! pays for a call, a process looks for answers that others have kept since. On this machine it also claims the request, so that
//! processes that ask for the same at the same time pay once ([`claims`]).
//!
//! [`compact`] may run beside them: it writes what it keeps as a new segment before it removes the old ones, and touches
//! no segment that was not there when it began. A process that misses a segment lists the folder again. At worst an
//! answer that was removed on purpose is asked for and paid again.

mod claims;
mod compact;
mod folder;
mod groups;
mod index;
pub mod segment;
mod shared;
pub mod spent;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use asap_udfs::Settings;
use asap_udfs::llm::store::{AnswerStore, Claim, RequestKey, StoreError};
use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, config_datafusion_err, exec_err};
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::{OnceCell, mpsc, oneshot};
use url::Url;

use crate::{beside, location};
use claims::Claims;
pub use compact::{Compacted, compact};
use folder::{Folder, now};
use groups::Waiting;
use index::Index;
use segment::{GROUP_ANSWERS, Record, Table};
pub use shared::SharedAnswers;
pub use survey::{SegmentSummary, State, Totals, survey};

/// The folder of the answers in that of what is kept beside an output.
pub const CACHE: &str = "cache/";
/// How old a listing of a folder on an object store may be before a call is made.
const LISTED: Duration = Duration::from_secs(1);
/// How often it is looked whether another process has an answer.
const CLAIMED: Duration = Duration::from_millis(100);
/// Tables that are read at the same time.
const TABLES_AT_ONCE: usize = 16;

/// The answers in one folder.
#[derive(Debug)]
pub struct AnswerFolder {
    folder: Folder,
    index: Arc<Mutex<Index>>,
    /// Held while the folder is listed again, so that many who miss a segment list it once; when it was listed last.
    listing: tokio::sync::Mutex<Instant>,
    /// None where the folder is not on this machine, or its file system has no locks.
    claims: OnceCell<Option<Claims>>,
    is_writable: OnceCell<()>,
    groups: mpsc::Sender<Waiting>,
    _gatherer: SpawnedTask<()>,
}

impl AnswerFolder {
    /// Opens the folder at a URL, which need not exist before the first answer is kept.
    ///
    /// # Errors
    /// If the folder or one of its segments cannot be read. A torn segment is a warning.
    pub async fn open(url: &Url) -> Result<Self> {
        Self::open_folder(Folder::new(url)?).await.map_err(external)
    }

    async fn open_folder(folder: Folder) -> std::result::Result<Self, StoreError> {
        let index = Arc::new(Mutex::new(Index::default()));
        let (groups, waiting) = mpsc::channel(GROUP_ANSWERS);
        let gatherer = SpawnedTask::spawn(groups::gather(waiting, folder.clone(), Arc::clone(&index)));
        let (listing, claims) = (tokio::sync::Mutex::new(Instant::now()), OnceCell::new());
        let answers =
            Self { folder, index, listing, claims, is_writable: OnceCell::new(), groups, _gatherer: gatherer };
        answers.list().await?;
        Ok(answers)
    }

    /// How many requests have an answer here.
    pub fn len(&self) -> usize {
        self.index().len()
    }

    /// Whether no request has an answer here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the index what the folder holds.
    async fn list(&self) -> std::result::Result<(), StoreError> {
        loop {
            // A segment that is indexed before the listing and not listed is gone; a later one may be just written.
            let indexed = self.index().segments();
            let listed = self.folder.list().await?;
            let names: BTreeSet<_> = listed.iter().map(|segment| segment.name.as_str()).collect();
            let gone = indexed.iter().filter(|name| !names.contains(name.as_ref())).cloned().collect();
            self.index().forget_segments(&gone);

            let new: Vec<_> =
                listed.iter().filter(|segment| !indexed.contains(segment.name.as_str())).cloned().collect();
            let read = async |segment: folder::Segment| Ok((self.folder.table(&segment).await?, segment));
            let mut tables = futures::stream::iter(new).map(read).buffered(TABLES_AT_ONCE);
            let mut missed = false;
            while let Some((table, segment)) = tables.try_next().await? {
                match table {
                    Some(table) => self.add(&segment.name, &table),
                    // Compacted since it was listed: its answers are in a segment that the next listing shows.
                    None => missed = true,
                }
            }
            if !missed {
                return Ok(());
            }
        }
    }

    /// Lists the folder again, unless it was listed less than `age` ago.
    async fn look_again(&self, age: Duration) -> std::result::Result<(), StoreError> {
        let asked = Instant::now();
        let mut listed = self.listing.lock().await;
        // Who waited for the lock finds a listing that began after it asked.
        if *listed > asked || listed.elapsed() < age {
            return Ok(());
        }
        *listed = Instant::now();
        self.list().await
    }

    fn add(&self, name: &str, table: &Table) {
        let shown = &self.folder.shown;
        match table {
            Table::Newer => tracing::warn!(segment = name, folder = shown, "a later version wrote this; left alone"),
            Table::Read { entries, torn } => {
                if *torn {
                    let whole = entries.len();
                    tracing::warn!(segment = name, folder = shown, whole, "answers are torn; the whole ones are used");
                }
                self.index().add(name, entries);
            }
        }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl AnswerStore for AnswerFolder {
    async fn get(&self, key: &RequestKey) -> std::result::Result<Option<Vec<u8>>, StoreError> {
        loop {
            let Some((place, segment)) = self.index().find(key) else { return Ok(None) };
            let Some(body) = self.folder.read(&segment, place.body()).await? else {
                let mut listed = self.listing.lock().await;
                if self.index().find(key) == Some((place, Arc::clone(&segment))) {
                    *listed = Instant::now();
                    self.list().await?;
                    self.index().forget_segments(&BTreeSet::from([segment]));
                }
                continue;
            };
            if let Some(answer) = segment::answer(key, &body) {
                return Ok(Some(answer.to_vec()));
            }
            tracing::warn!(segment = &*segment, folder = self.folder.shown, "an answer is torn and not used");
            self.index().forget_place(key, place);
        }
    }

    async fn check(&self) -> std::result::Result<(), StoreError> {
        self.is_writable.get_or_try_init(|| self.folder.check_writable()).await.map(|_| ())
    }

    async fn claim(&self, key: &RequestKey) -> std::result::Result<Option<Claim>, StoreError> {
        let claims = self.claims.get_or_init(async || self.folder.claims()).await;
        let Some(claims) = claims else {
            self.look_again(LISTED).await?;
            return Ok(None);
        };
        loop {
            match claims.claim(key) {
                Ok(Some(claim)) => {
                    if self.folder.may_have_changed() {
                        self.look_again(Duration::ZERO).await?;
                    }
                    return Ok(Some(Box::new(claim)));
                }
                Ok(None) => tokio::time::sleep(CLAIMED).await,
                Err(error) => {
                    tracing::debug!(folder = self.folder.shown, %error, "answers cannot be claimed");
                    return Ok(None);
                }
            }
            self.look_again(CLAIMED).await?;
            if self.index().find(key).is_some() {
                return Ok(None);
            }
        }
    }

    async fn keep(&self, key: RequestKey, answer: Vec<u8>, may_wait: bool) -> std::result::Result<(), StoreError> {
        let failed = |why: &str| StoreError(format!("cannot write answers to {}: {why}", self.folder.shown));
        if u32::try_from(answer.len()).is_err() {
            return Err(failed(&format!("an answer has {} bytes, the most is {}", answer.len(), u32::MAX)));
        }
        if self.index().find(&key).is_some() {
            return Ok(());
        }
        let (stored, result) = oneshot::channel();
        let ended = |()| failed("the process is ending");
        let waiting = Waiting { record: Record { key, time: now(), answer }, may_wait, stored };
        self.groups.send(waiting).await.map_err(|_| ended(()))?;
        result.await.map_err(|_| ended(()))?
    }
}

/// Where a run keeps its answers: in the folder of what asap keeps next to its output.
///
/// # Errors
/// If that is no URL.
pub fn of_output(output: &Url) -> Result<Url> {
    beside::join(&beside::beside(output)?, CACHE)
}

/// Where answers are kept that belong to no output: `asap.cache.dir`, else the user's cache folder.
///
/// # Errors
/// If neither the setting nor the environment names a folder.
pub fn shared(settings: &Settings) -> Result<Url> {
    if let Some(folder) = &settings.cache_dir {
        return location::parse(folder);
    }
    let user =
        Xdg::new().map_err(|_| config_datafusion_err!("there is no folder for answers: set asap.cache.dir or HOME"))?;
    location::parse(&user.cache_dir().join("asap").to_string_lossy())
}

/// The folder of answers that a location means: an output's own, or itself.
///
/// # Errors
/// If the location is neither an output nor a folder of answers.
pub async fn find(text: &str) -> Result<Url> {
    let mut url = location::parse(text)?;
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    let folder = Folder::new(&url)?;
    if folder.holds_folder(beside::FOLDER).await.map_err(external)? {
        return of_output(&url);
    }
    if folder.list().await.map_err(external)?.is_empty() {
        return exec_err!(
            "{} is neither the output of a run (which has a folder .asap) nor a folder of answers (*.answers)",
            folder.shown
        );
    }
    Ok(url)
}

fn external(error: StoreError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
