//! Datasets of the Hugging Face Hub, `hf://datasets/org/name@revision/path`, as a read-only store.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use asap_hub::{Body, Entry, Hub, HubError, Kind, Place, Repository};
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, config_datafusion_err};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::retry::causes;

/// How long a branch is taken to be at the same commit. Only listings look again: reads between them see one commit.
const FRESH: Duration = Duration::from_secs(60);

pub(super) fn store() -> Result<Arc<dyn ObjectStore>> {
    let hub = Hub::new().map_err(|error| config_datafusion_err!("{error}"))?;
    Ok(Arc::new(Datasets(Arc::new(Inner { hub, commits: Mutex::default() }))))
}

/// Whether an error says that a dataset has no such branch, tag or commit.
pub(crate) fn lacks_revision(error: &DataFusionError) -> bool {
    causes(error).any(|error| matches!(error.downcast_ref(), Some(HubError::NoRevision(_))))
}

#[derive(Debug)]
struct Datasets(Arc<Inner>);

struct Inner {
    hub: Hub,
    /// The commits of revisions, each with the time when the Hub named it, by `org/name@revision`.
    commits: Mutex<HashMap<Path, (String, Instant)>>,
}

/// A place in a dataset, and `org/name@revision`, which begins the paths of this store.
#[derive(Debug, PartialEq)]
struct Named {
    dataset: Path,
    place: Place,
}

impl Named {
    /// Resolves a path `org/name@revision/…`. Special revisions, such as `refs/convert/parquet` or `refs/pr/1`, span
    /// several path segments.
    fn parse(location: &Path) -> object_store::Result<Self> {
        let parts: Vec<_> = location.parts().collect();
        let named = parts.get(1).and_then(|name| name.as_ref().split_once('@'));
        let Some((name, revision)) = named.filter(|(_, revision)| !revision.is_empty()) else {
            let said = format!("hf://datasets/{location} is not a dataset: write hf://datasets/org/name/path");
            return Err(Error::NotSupported { source: said.into() });
        };
        let (of_dataset, of_path) = parts.split_at(if revision == "refs" { parts.len().min(4) } else { 2 });
        let revision = std::iter::once(revision).chain(of_dataset[2..].iter().map(AsRef::as_ref));
        let repository = Repository { kind: Kind::Dataset, name: format!("{}/{name}", parts[0].as_ref()) };
        let (revision, path) = (revision.collect::<Vec<_>>().join("/"), Path::from_iter(of_path.to_vec()).to_string());
        Ok(Self { dataset: Path::from_iter(of_dataset.to_vec()), place: Place { repository, revision, path } })
    }

    /// The path of an entry in this store. Its name may be no path.
    fn path(&self, entry: &Entry) -> object_store::Result<Path> {
        Ok(Path::parse(format!("{}/{}", self.dataset, entry.path))?)
    }

    fn meta(&self, entry: &Entry) -> object_store::Result<ObjectMeta> {
        Ok(meta(self.path(entry)?, entry.size, Some(&entry.etag)))
    }
}

fn meta(location: Path, size: u64, etag: Option<&str>) -> ObjectMeta {
    let e_tag = etag.map(|etag| format!("\"{etag}\""));
    ObjectMeta { location, last_modified: Default::default(), size, e_tag, version: None }
}

/// The same error for users of stores.
fn refused(location: &Path) -> impl Fn(HubError) -> Error + use<> {
    let path = location.to_string();
    move |error| {
        let (path, source) = (path.clone(), error.clone().into());
        match error {
            HubError::NotFound(_) => Error::NotFound { path, source },
            HubError::Changed(_) => Error::Precondition { path, source },
            HubError::NoRepository(_) | HubError::NoRevision(_) | HubError::Refused(_) => {
                Error::NotSupported { source }
            }
            HubError::Unavailable(_) | HubError::Disk { .. } => Error::Generic { store: "hf", source },
        }
    }
}

impl Inner {
    fn commits(&self) -> MutexGuard<'_, HashMap<Path, (String, Instant)>> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves a path, and its revision to a commit.
    async fn named(&self, location: &Path, is_listing: bool) -> object_store::Result<Named> {
        let mut named = Named::parse(location)?;
        let held = self.commits().get(&named.dataset).cloned();
        if let Some((commit, at)) = held
            && (!is_listing || at.elapsed() < FRESH)
        {
            named.place.revision = commit;
            return Ok(named);
        }
        let commit =
            self.hub.commit(&named.place.repository, &named.place.revision).await.map_err(refused(location))?;
        self.commits().insert(named.dataset.clone(), (commit.clone(), Instant::now()));
        named.place.revision = commit;
        Ok(named)
    }

    async fn entries(&self, folder: &Path, is_deep: bool) -> object_store::Result<(Named, Vec<Entry>)> {
        let named = self.named(folder, true).await?;
        let entries = self.hub.tree(&named.place, is_deep).await.map_err(refused(folder))?;
        Ok((named, entries))
    }

    async fn head(&self, location: &Path) -> object_store::Result<ObjectMeta> {
        let named = self.named(location, true).await?;
        let found = match named.place.path.is_empty() {
            true => None,
            false => self.hub.file(&named.place).await.map_err(refused(location))?,
        };
        let missing = || -> Box<dyn std::error::Error + Send + Sync> {
            format!("there is no file {} in {}", named.place.path, named.place.repository).into()
        };
        let entry = found.ok_or_else(|| Error::NotFound { path: location.to_string(), source: missing() })?;
        Ok(meta(location.clone(), entry.size, Some(&entry.etag)))
    }
}

fn read_only() -> Error {
    Error::NotSupported { source: "hf:// is read-only: you cannot write there".into() }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hub.fmt(formatter)
    }
}

impl fmt::Display for Datasets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("hf://datasets")
    }
}

/// The value of the header `Range`.
fn header(range: &GetRange) -> String {
    match range {
        GetRange::Bounded(range) => format!("bytes={}-{}", range.start, range.end.saturating_sub(1)),
        GetRange::Offset(first) => format!("bytes={first}-"),
        GetRange::Suffix(length) => format!("bytes=-{length}"),
    }
}

#[async_trait]
impl ObjectStore for Datasets {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        if options.head {
            let meta = self.0.head(location).await?;
            options.check_preconditions(&meta)?;
            let payload = GetResultPayload::Stream(stream::empty().boxed());
            return Ok(GetResult { payload, range: 0..meta.size, meta, attributes: Default::default() });
        }
        let named = self.0.named(location, false).await?;
        let etag = options.if_match.as_deref().map(|etag| etag.trim_matches('"')).filter(|etag| *etag != "*");
        let range = options.range.as_ref().map(header);
        let body = self.0.hub.read(named.place, range, etag).await.map_err(refused(location))?;
        let meta = meta(location.clone(), body.size, body.etag.as_deref());
        let (range, location) = (body.range.clone(), location.clone());
        let next = async |mut body: Body| Ok::<_, HubError>(body.chunk().await?.map(|chunk| (chunk, body)));
        let chunks = stream::try_unfold(body, next);
        let payload = GetResultPayload::Stream(chunks.map_err(refused(&location)).boxed());
        Ok(GetResult { payload, range, meta, attributes: Default::default() })
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let (inner, folder) = (Arc::clone(&self.0), prefix.cloned().unwrap_or_default());
        let listed = async move {
            let (named, entries) = inner.entries(&folder, true).await?;
            let files = entries.into_iter().filter(|entry| entry.is_file);
            Ok::<_, Error>(stream::iter(files.map(move |entry| named.meta(&entry))))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let (named, entries) = self.0.entries(&prefix.cloned().unwrap_or_default(), false).await?;
        let (files, folders): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.is_file);
        let common_prefixes =
            folders.into_iter().map(|entry| named.path(entry)).collect::<object_store::Result<_>>()?;
        let objects = files.into_iter().map(|entry| named.meta(entry)).collect::<object_store::Result<_>>()?;
        Ok(ListResult { common_prefixes, objects })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> object_store::Result<PutResult> {
        Err(read_only())
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        Err(read_only())
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        stream::iter([Err(read_only())]).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        Err(read_only())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_of_a_revision() {
        for (path, dataset, revision, inner) in [
            ("org/name@1d0c4eb/a/b.parquet", "org/name@1d0c4eb", "1d0c4eb", "a/b.parquet"),
            ("org/name@main", "org/name@main", "main", ""),
            ("org/name@refs/convert/parquet/a/b", "org/name@refs/convert/parquet", "refs/convert/parquet", "a/b"),
            ("org/name@refs/pr/1", "org/name@refs/pr/1", "refs/pr/1", ""),
        ] {
            let named = Named::parse(&Path::from(path)).unwrap();
            assert_eq!((named.dataset.as_ref(), named.place.repository.name.as_str()), (dataset, "org/name"));
            assert_eq!((named.place.revision.as_str(), named.place.path.as_str()), (revision, inner));
        }
        for path in ["", "org", "org/name", "org/name@", "org/name@/a"] {
            assert!(Named::parse(&Path::from(path)).is_err(), "{path}");
        }
    }
}
