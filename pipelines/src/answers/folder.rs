//! A folder of segments on an object store.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use asap_llm::store::StoreError;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderMetadata;
use datafusion::parquet::errors::ParquetError;
use object_store::path::Path;
use object_store::{ListResult, ObjectStore, ObjectStoreExt, PutPayload};
use url::Url;
use uuid::Uuid;

use crate::answers::claims::Claims;
use crate::answers::segment::{self, Entry, Record};
use crate::corpus::guarded_future;
use crate::delta::PROBE;
use crate::location;
use crate::object_reader::ObjectReader;
use crate::objects::of_any_version;

pub(crate) const ENDING: &str = ".answers.parquet";
/// Bytes read together with a footer, so that one request reads most segments.
const FOOTER_BYTES: usize = 64 << 10;
const CLOCK: Duration = Duration::from_millis(50);
const UNFINISHED: Duration = Duration::from_secs(3600);

/// The location of segments. Names begin with the time of writing in milliseconds since 1970, so they sort in writing
/// order. They end with an id that no other writer uses.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    place: location::Folder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub name: String,
    pub size: u64,
}

impl Segment {
    pub(crate) fn written(&self) -> Option<i64> {
        self.name.split_once('-')?.0.parse().ok()
    }
}

/// Why a segment was not read.
#[derive(Debug)]
pub(super) enum Unread {
    Damaged(String),
    Missing,
    Failed(StoreError),
}

pub(super) type Read<T> = Result<T, Unread>;

impl Folder {
    pub(super) fn new(url: &Url) -> datafusion::common::Result<Self> {
        Ok(Self { place: location::Folder::open(url)? })
    }

    #[cfg(test)]
    pub(crate) fn of_store(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        let store = Arc::new(object_store::prefix::PrefixStore::new(store, prefix));
        Self { place: location::Folder { store, local: None, shown: prefix.to_string() } }
    }

    pub(super) fn shown(&self) -> &str {
        &self.place.shown
    }

    async fn listed(&self) -> Result<ListResult, StoreError> {
        self.place.store.list_with_delimiter(None).await.map_err(|error| self.failed("list", error))
    }

    /// All segments in the order of their names. Subfolders and other files are ignored.
    pub(super) async fn list(&self) -> Result<Vec<Segment>, StoreError> {
        let segment = |object: object_store::ObjectMeta| {
            let name = object.location.filename().filter(|name| name.ends_with(ENDING))?;
            Some(Segment { name: name.to_string(), size: object.size })
        };
        let mut segments: Vec<_> = self.listed().await?.objects.into_iter().filter_map(segment).collect();
        segments.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(segments)
    }

    /// The claims in the folder, if it is local and they can be opened.
    pub(crate) fn claims(&self) -> Option<Claims> {
        let opened = Claims::open(self.place.local.as_ref()?);
        opened.inspect_err(|error| tracing::debug!(folder = self.shown(), %error, "answers cannot be claimed")).ok()
    }

    /// The modification time of the folder. None for a recent one, which is inconclusive, because times are only as
    /// precise as the clock that sets them.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        let modified = self.place.local.as_ref()?.metadata().ok()?.modified().ok()?;
        modified.elapsed().is_ok_and(|age| age > CLOCK).then_some(modified)
    }

    pub(crate) async fn holds_folder(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.listed().await?.common_prefixes.iter().any(|folder| folder.filename() == Some(name)))
    }

    pub(super) async fn entries(&self, segment: &Segment) -> Read<(ArrowReaderMetadata, Vec<Entry>)> {
        self.read(segment, segment::entries(self.object(segment))).await
    }

    /// The answers in `rows` of a segment; `None` for an answer that differs from what was stored.
    pub(super) async fn records(
        &self,
        segment: &Segment,
        metadata: ArrowReaderMetadata,
        rows: Range<usize>,
    ) -> Read<Vec<Option<Record>>> {
        self.read(segment, segment::records(self.object(segment), metadata, rows)).await
    }

    async fn read<T>(&self, segment: &Segment, read: impl Future<Output = Result<T, ParquetError>>) -> Read<T> {
        let error = match guarded_future(read).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => error,
            Err(panicked) => ParquetError::General(panicked),
        };
        match error {
            ParquetError::External(external) => match external.downcast::<object_store::Error>() {
                Ok(error) if matches!(*error, object_store::Error::NotFound { .. }) => Err(Unread::Missing),
                Ok(error) => Err(Unread::Failed(self.failed(&format!("read {} in", segment.name), *error))),
                Err(other) => Err(Unread::Damaged(other.to_string())),
            },
            damage => Err(Unread::Damaged(damage.to_string())),
        }
    }

    fn object(&self, segment: &Segment) -> ObjectReader {
        let (store, object) =
            (Arc::clone(&self.place.store), of_any_version(segment.name.as_str().into(), segment.size));
        ObjectReader { store, object, prefetch: Some(FOOTER_BYTES), footer: None }
    }

    /// Writes records as a new segment that sorts at `time` (milliseconds since 1970). Returns it when it is durable.
    pub(super) async fn write(&self, time: i64, records: &[Record]) -> Result<Segment, StoreError> {
        let (segment, bytes) = self.encode(time, records)?;
        let failed = |error: &dyn Display| self.not_written(error);
        self.place.store.put(&segment.name.as_str().into(), bytes.into()).await.map_err(|error| failed(&error))?;
        if let Some(folder) = &self.place.local {
            // A local store returns when the system has the bytes; a power cut would still lose them.
            for path in [folder.join(&segment.name), folder.clone()] {
                let synced = async { tokio::fs::File::open(path).await?.sync_all().await };
                synced.await.map_err(|error| failed(&error))?;
            }
        }
        Ok(segment)
    }

    /// The segment that [`write`](Self::write) would write, and its content.
    pub(super) fn encode(&self, time: i64, records: &[Record]) -> Result<(Segment, Vec<u8>), StoreError> {
        let name = format!("{time:013}-{}{ENDING}", Uuid::new_v4().simple());
        let bytes = segment::encode(records).map_err(|error| self.not_written(&error))?;
        Ok((Segment { name, size: bytes.len() as u64 }, bytes))
    }

    fn not_written(&self, error: &dyn Display) -> StoreError {
        StoreError(format!("cannot write answers to {}: {error}", self.shown()))
    }

    /// Checks that segments can be written, by writing and removing an empty object.
    pub(crate) async fn check_writable(&self) -> Result<(), StoreError> {
        let probe = Path::from(format!("{PROBE}{}", Uuid::new_v4().simple()));
        let failed = |error| self.failed("write answers to", error);
        self.place.store.put(&probe, PutPayload::new()).await.map_err(failed)?;
        self.place.store.delete(&probe).await.map_err(failed)
    }

    /// Removes partial segments that killed processes left, if they are older than an hour, and counts them. A dry run
    /// only counts. Only local folders have them, because a segment is first written under another name there.
    pub(crate) fn remove_unfinished(&self, dry_run: bool) -> Result<u64, StoreError> {
        let Some(folder) = &self.place.local else { return Ok(0) };
        let removed = || {
            let mut left = location::unfinished(folder, SystemTime::now() - UNFINISHED)?;
            left.retain(|(path, _)| {
                path.to_string_lossy().rsplit_once('#').is_some_and(|(name, _)| name.ends_with(ENDING))
            });
            for (path, _) in left.iter().filter(|_| !dry_run) {
                location::if_exists(std::fs::remove_file(path))?;
            }
            std::io::Result::Ok(left.len() as u64)
        };
        removed().map_err(|error| StoreError(format!("cannot remove from {}: {error}", self.shown())))
    }

    pub(super) async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.place.remove(name).await.map_err(|error| self.failed(&format!("remove {name} from"), error))
    }

    fn failed(&self, what: &str, error: object_store::Error) -> StoreError {
        StoreError(format!("cannot {what} {}: {error}", self.shown()))
    }
}

pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
