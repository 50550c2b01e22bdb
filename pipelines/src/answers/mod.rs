//! Paid answers, stored next to the output that they were paid for: Parquet files in a folder on any object store.
//!
//! ```text
//!   keep ──┐
//!   keep ──┼─ group: 64 answers, 250 ms, or all in flight ── one object, written once ── all keeps return
//!   keep ──┘
//!   open ── list ── the keys of each segment ── index: key -> segment, row
//!   get  ── index ── the row of the answer
//! ```
//!
//! An answer is durable when [`keep`](AnswerStore::keep) returns: its object is on the store, and synced on a local
//! disk. A damaged segment is skipped with a warning, and so is an answer whose bytes have changed ([`segment`]). Of
//! two answers to one request the first wins, in the order of segment names, which is the writing order.
//!
//! Any number of processes may use a folder at the same time, since each writes objects with unique names and none
//! changes an object. Before it pays for a call, a process looks for new answers of others. On the local machine it
//! also claims the request, so that processes with the same request pay once ([`claims`]).
//!
//! [`compact()`] may run at the same time: it writes a new segment before it removes the old ones, and touches only
//! segments that existed when it started. A process that misses a segment lists the folder again. At worst, an answer
//! that was removed on purpose is requested and paid for again.

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
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use asap_llm::chat::Outcome;
use asap_llm::request::RequestKey;
use asap_llm::store::{AnswerStore, Claim, StoreError};
use asap_udfs::Settings;
use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, config_datafusion_err, exec_err};
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use futures::StreamExt;
use lru::LruCache;
use tokio::sync::{OnceCell, mpsc, oneshot};
use url::Url;

use crate::answers::claims::Claims;
pub use crate::answers::compact::{Compacted, compact};
use crate::answers::folder::{ENDING, Folder, Read, Segment, Unread, now};
use crate::answers::groups::Waiting;
use crate::answers::index::{EntryPlace, Index, Indexed};
use crate::answers::segment::{GROUP_ANSWERS, Record};
pub use crate::answers::shared::SharedAnswers;
pub use crate::answers::survey::{Totals, survey};
use crate::{asap_folder, location};

/// The folder of the answers, in the folder of asap next to an output.
pub(crate) const CACHE: &str = "cache/";
/// The maximum age of a listing of a folder on an object store before a call.
const LISTED: Duration = Duration::from_secs(1);
const CLAIMED: Duration = Duration::from_millis(100);
const READ_GROUPS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);
const SEGMENTS_AT_ONCE: usize = 16;

/// The answers of a row group, with `None` for a damaged one. The first caller reads them.
type ReadGroup = Arc<OnceCell<Vec<Option<Record>>>>;

#[derive(Debug)]
pub struct AnswerFolder {
    folder: Folder,
    index: Arc<Mutex<Index>>,
    /// The time of the last listing. The lock is held while the folder is listed, so that many callers that miss a
    /// segment list it once.
    listing: tokio::sync::Mutex<Instant>,
    /// The modification time of the folder at which the last listing for a claim began.
    listed_at: Mutex<Option<SystemTime>>,
    /// None if the folder is not local, or its file system has no locks.
    claims: OnceCell<Option<Claims>>,
    is_writable: OnceCell<()>,
    read_groups: Mutex<LruCache<(u32, usize), ReadGroup>>,
    groups: mpsc::Sender<Waiting>,
    _gatherer: SpawnedTask<()>,
}

impl AnswerFolder {
    /// Opens the folder at a URL, which need not exist before the first answer is kept.
    ///
    /// # Errors
    /// If the folder or one of its segments cannot be read. A damaged segment is a warning.
    pub async fn open(url: &Url) -> Result<Self> {
        Self::open_folder(Folder::new(url)?).await.map_err(external)
    }

    async fn open_folder(folder: Folder) -> std::result::Result<Self, StoreError> {
        let index = Arc::new(Mutex::new(Index::default()));
        let (groups, waiting) = mpsc::channel(GROUP_ANSWERS);
        let gatherer = SpawnedTask::spawn(groups::gather(waiting, folder.clone(), Arc::clone(&index)));
        let (listing, claims) = (tokio::sync::Mutex::new(Instant::now()), OnceCell::new());
        let answers = Self {
            folder,
            index,
            listing,
            listed_at: Mutex::default(),
            claims,
            is_writable: OnceCell::new(),
            read_groups: Mutex::new(LruCache::new(READ_GROUPS)),
            groups,
            _gatherer: gatherer,
        };
        answers.list().await?;
        Ok(answers)
    }

    async fn list(&self) -> std::result::Result<(), StoreError> {
        loop {
            // A segment that was indexed before the listing and is not listed was deleted. A later one may be new.
            let indexed = self.index().segments();
            let listed = self.folder.list().await?;
            let names: BTreeSet<_> = listed.iter().map(|segment| segment.name.as_str()).collect();
            let gone = indexed.iter().filter(|name| !names.contains(name.as_str())).cloned().collect();
            self.index().forget_segments(&gone);

            let new: Vec<_> = listed.iter().filter(|segment| !indexed.contains(&segment.name)).cloned().collect();
            let read = async |segment: Segment| (self.folder.entries(&segment).await, segment);
            let mut found = futures::stream::iter(new).map(read).buffered(SEGMENTS_AT_ONCE);
            let mut missed = false;
            while let Some((found, segment)) = found.next().await {
                match found {
                    Ok((metadata, entries)) => self.index().add(segment, Some(metadata), &entries),
                    Err(Unread::Damaged(why)) => {
                        self.warn_of_damage(&segment, &why);
                        self.index().add(segment, None, &[]);
                    }
                    // Compacted after the listing: its answers are in a segment that the next listing shows.
                    Err(Unread::Missing) => missed = true,
                    Err(Unread::Failed(error)) => return Err(error),
                }
            }
            if !missed {
                return Ok(());
            }
        }
    }

    async fn look_again(&self, age: Duration) -> std::result::Result<(), StoreError> {
        let asked = Instant::now();
        let mut listed = self.listing.lock().await;
        // A caller that waited for the lock finds a listing that started after its request.
        if *listed > asked || listed.elapsed() < age {
            return Ok(());
        }
        *listed = Instant::now();
        self.list().await
    }

    fn warn_of_damage(&self, segment: &Segment, why: &str) {
        let (name, folder) = (&segment.name, self.folder.shown());
        tracing::warn!(
            segment = name,
            folder,
            why,
            "a file of answers is damaged; its answers will be requested again"
        );
    }

    /// The answer at a place. The whole row group is read, since a resumed run needs neighbouring answers.
    async fn read(&self, place: EntryPlace, found: &Indexed) -> Read<Option<Record>> {
        let (group, row) = (place.row as usize / GROUP_ANSWERS, place.row as usize % GROUP_ANSWERS);
        let cell = {
            let mut groups = self.read_groups.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(groups.get_or_insert((place.segment, group), Arc::default))
        };
        let records = cell.get_or_try_init(|| self.read_group(group, found)).await?;
        Ok(records.get(row).cloned().flatten())
    }

    async fn read_group(&self, group: usize, found: &Indexed) -> Read<Vec<Option<Record>>> {
        let metadata = async || Ok::<_, Unread>(self.folder.entries(&found.segment).await?.0);
        let metadata = found.metadata.get_or_try_init(metadata).await?;
        let first = group * GROUP_ANSWERS;
        self.folder.records(&found.segment, metadata.clone(), first..first + GROUP_ANSWERS).await
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl AnswerStore for AnswerFolder {
    async fn get(&self, key: &RequestKey) -> std::result::Result<Option<Outcome>, StoreError> {
        loop {
            let Some((place, found)) = self.index().find(key) else { return Ok(None) };
            match self.read(place, &found).await {
                Ok(Some(record)) if record.key == *key => return Ok(Some(record.outcome)),
                Ok(_) => {
                    self.warn_of_damage(&found.segment, "the content of an answer has changed since it was stored");
                    self.index().forget_place(key, place);
                }
                Err(Unread::Damaged(why)) => {
                    self.warn_of_damage(&found.segment, &why);
                    self.index().forget_answers(&found.segment.name);
                }
                Err(Unread::Failed(error)) => return Err(error),
                Err(Unread::Missing) => {
                    let mut listed = self.listing.lock().await;
                    if self.index().find(key).is_some_and(|(again, _)| again == place) {
                        *listed = Instant::now();
                        self.list().await?;
                        self.index().forget_segments(&BTreeSet::from([found.segment.name.clone()]));
                    }
                }
            }
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
                    // The time is read before the listing and kept after it, so that no other call relies on a listing
                    // that has not ended.
                    let modified = self.folder.modified();
                    let listed_at = || self.listed_at.lock().unwrap_or_else(PoisonError::into_inner);
                    if modified.is_none() || *listed_at() != modified {
                        self.look_again(Duration::ZERO).await?;
                        *listed_at() = modified;
                    }
                    return Ok(Some(Box::new(claim)));
                }
                Ok(None) => tokio::time::sleep(CLAIMED).await,
                Err(error) => {
                    tracing::debug!(folder = self.folder.shown(), %error, "answers cannot be claimed");
                    return Ok(None);
                }
            }
            self.look_again(CLAIMED).await?;
            if self.index().find(key).is_some() {
                return Ok(None);
            }
        }
    }

    async fn keep(&self, key: RequestKey, outcome: Outcome, may_wait: bool) -> std::result::Result<(), StoreError> {
        let failed = |why: &str| StoreError(format!("cannot write answers to {}: {why}", self.folder.shown()));
        if self.index().find(&key).is_some() {
            return Ok(());
        }
        let (stored, result) = oneshot::channel();
        let ended = |()| failed("the process is ending");
        let waiting = Waiting { record: Record { key, time: now(), outcome }, may_wait, stored };
        self.groups.send(waiting).await.map_err(|_| ended(()))?;
        result.await.map_err(|_| ended(()))?
    }
}

/// The answer cache of an output.
pub fn of_output(output: &Url) -> Result<Url> {
    asap_folder::join(&asap_folder::asap_folder(output)?, CACHE)
}

/// Opens the paid answers of the run that writes to `to`, if its pipeline may use a language model.
pub(crate) async fn paid(to: &Url, settings: &Settings) -> Result<Option<Arc<dyn AnswerStore>>> {
    if !settings.anchor_provider.is_language_model() {
        return Ok(None);
    }
    Ok(Some(Arc::new(AnswerFolder::open(&of_run(to, settings).await?).await?)))
}

/// The answer cache of a run: `asap.cache.dir`, which several outputs may share, or else the one of the output. An
/// output that already has answers keeps them.
pub(crate) async fn of_run(output: &Url, settings: &Settings) -> Result<Url> {
    let own = of_output(output)?;
    match &settings.cache_dir {
        Some(dir) if Folder::new(&own)?.list().await.map_err(external)?.is_empty() => shared(Some(dir)),
        _ => Ok(own),
    }
}

/// The answer cache outside of outputs: `asap.cache.dir`, or else the cache folder of the user.
pub fn shared(dir: Option<&str>) -> Result<Url> {
    if let Some(folder) = dir {
        return location::parse(folder);
    }
    let user =
        Xdg::new().map_err(|_| config_datafusion_err!("there is no folder for answers: set asap.cache.dir or HOME"))?;
    location::parse(&user.cache_dir().join("asap").to_string_lossy())
}

/// Finds the answer cache at a location, which is an output or the folder of the cache itself.
pub async fn find(text: &str) -> Result<Url> {
    let mut url = location::parse(text)?;
    if !url.path().ends_with('/') {
        url.set_path(&format!("{}/", url.path()));
    }
    let folder = Folder::new(&url)?;
    if folder.holds_folder(asap_folder::FOLDER).await.map_err(external)? {
        return of_output(&url);
    }
    if folder.list().await.map_err(external)?.is_empty() {
        return exec_err!(
            "{} is neither the output of a run (with a .asap folder) nor an answer cache (with *{ENDING} files): pass one of these",
            folder.shown()
        );
    }
    Ok(url)
}

fn external(error: StoreError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
