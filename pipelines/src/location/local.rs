//! Files on this machine. A deletion also removes the folders of asap that it leaves empty, and no others. A listing
//! resumes after a name that is no path.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::SystemTime;
use std::{fmt, fs, io};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::retry::causes;
use crate::objects::Nameless;

/// Folders that only asap makes, each in the folder of an output.
const OWN: [&str; 2] = ["_delta_log", ".asap"];
/// Files that a listing looks at on another thread before it returns them.
const LISTED_AT_ONCE: usize = 1024;
/// How often a file is written again whose folder another process removed.
const FOLDER_TRIES: usize = 20;

/// The local file system. Its own clean-up would climb up to the current folder of the shell, and remove it.
#[derive(Debug, Default)]
pub(crate) struct Local(LocalFileSystem);

impl fmt::Display for Local {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Removes the empty folders above a deleted file: those inside a folder of asap, partitions such as `split=train`, and
/// the output itself.
fn remove_empty(file: PathBuf) {
    let is_own = |name: Option<&OsStr>| name.is_some_and(|name| OWN.iter().any(|own| name == *own));
    let is_partition = |name: Option<&OsStr>| name.is_some_and(|name| name.to_string_lossy().contains('='));
    let current = std::env::current_dir().ok();
    for folder in file.ancestors().skip(1) {
        let is_output = OWN.iter().any(|own| file.starts_with(folder.join(own)));
        let is_inside = folder.ancestors().any(|above| is_own(above.file_name()));
        let may_go = is_inside || is_output || is_partition(folder.file_name());
        // A folder that is not empty stays, and so do those above it.
        if !may_go || current.as_deref() == Some(folder) || fs::remove_dir(folder).is_err() {
            return;
        }
        if is_output && !is_inside {
            return;
        }
    }
}

/// A listing that returns the error of each name that is no path, and resumes.
fn listing(
    list: impl FnOnce() -> BoxStream<'static, Result<ObjectMeta>> + Send,
) -> BoxStream<'static, Result<ObjectMeta>> {
    // On a thread of the runtime, the store's listing ends at its first error. On any other thread, it resumes.
    let Ok(files) = std::thread::scope(|scope| scope.spawn(list).join()) else {
        return stream::iter([Err(failed("the listing stopped".into()))]).boxed();
    };
    let batches = stream::unfold(Some(files), |files| async move {
        let mut files = files?;
        let look = move || {
            let found: Vec<_> = futures::executor::block_on(
                files.by_ref().take(LISTED_AT_ONCE).map(|file| file.map_err(Nameless::explain)).collect(),
            );
            (found, files)
        };
        match SpawnedTask::spawn_blocking(look).join().await {
            Ok((found, _)) if found.is_empty() => None,
            Ok((found, files)) => Some((found, Some(files))),
            Err(error) => Some((vec![Err(failed(error.into()))], None)),
        }
    });
    batches.flat_map(stream::iter).boxed()
}

fn failed(source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::Generic { store: "LocalFileSystem", source }
}

/// Whether a folder was missing: another process removed it after this one found or made it. Making the folders above a file
/// fails with "already exists" if one is removed just after another process made it.
fn is_without_folder<T>(written: &Result<T>) -> bool {
    let Err(Error::Generic { source, .. }) = written else { return false };
    let mut kinds = causes(source.as_ref()).filter_map(|error| Some(error.downcast_ref::<io::Error>()?.kind()));
    kinds.any(|kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists))
}

/// None for a file that does not exist.
pub(crate) fn if_exists<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Files below a folder that killed processes left before a time, with their sizes. A store first writes a file under a name
/// that its listings hide, `<name>#<number>`.
pub(crate) fn unfinished(folder: &std::path::Path, before: SystemTime) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in if_exists(folder.read_dir())?.into_iter().flatten() {
        let path = entry?.path();
        let name = path.to_string_lossy();
        let is_unfinished = name.rsplit_once('#').is_some_and(|(_, number)| number.parse::<u64>().is_ok());
        let Some(metadata) = if_exists(path.symlink_metadata())? else { continue };
        if metadata.is_dir() {
            found.append(&mut unfinished(&path, before)?);
        } else if is_unfinished && metadata.modified()? <= before {
            found.push((path, metadata.len()));
        }
    }
    Ok(found)
}

#[async_trait]
impl ObjectStore for Local {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let mut written = self.0.put_opts(location, payload.clone(), options.clone()).await;
        for _ in 0..FOLDER_TRIES {
            if !is_without_folder(&written) {
                break;
            }
            written = self.0.put_opts(location, payload.clone(), options.clone()).await;
        }
        written
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let mut begun = self.0.put_multipart_opts(location, options.clone()).await;
        for _ in 0..FOLDER_TRIES {
            if !is_without_folder(&begun) {
                break;
            }
            begun = self.0.put_multipart_opts(location, options.clone()).await;
        }
        begun
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let files = LocalFileSystem::new();
        let clean = move |deleted: Result<Path>| {
            let deleted = deleted?;
            remove_empty(files.path_to_filesystem(&deleted)?);
            Ok(deleted)
        };
        self.0.delete_stream(locations).map(clean).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        listing(|| self.0.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        listing(|| self.0.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.0.rename_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;

    use super::*;

    /// Lists a folder of good files and bad names: the names of all files, and of those without a path.
    async fn listed(folder: &std::path::Path, offset: Option<&str>) -> (Vec<String>, Vec<String>) {
        let store = Local::default();
        let root = Path::from_absolute_path(folder).unwrap();
        let mut found = match offset {
            None => store.list(Some(&root)),
            Some(offset) => store.list_with_offset(Some(&root), &root.clone().join(offset)),
        };
        let (mut named, mut nameless) = (Vec::new(), Vec::new());
        while let Some(file) = found.next().await {
            match file {
                Ok(file) => named.push(file.location.filename().unwrap().to_string()),
                Err(error) => nameless.push(Nameless::of(&error).unwrap().name),
            }
        }
        named.sort();
        nameless.sort();
        (named, nameless)
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_listing_resumes_after_each_bad_name() {
        use std::os::unix::ffi::OsStrExt;
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        // More than are listed at once.
        let good: Vec<String> = (0..3000).map(|number| format!("f{number:04}.jsonl")).collect();
        good.iter().for_each(|name| fs::write(base.join(name), "").unwrap());
        let bad: [&[u8]; 6] = [b"Icon\r", b"a\tb.jsonl", b"n\nx.jsonl", b"\x7f", b"\xff.jsonl", b"sub\nx/t.jsonl"];
        for name in bad {
            let file = base.join(OsStr::from_bytes(name));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let (named, nameless) = listed(&base, None).await;
        assert_eq!(named, good);
        assert_eq!(nameless.len(), bad.len(), "{nameless:?}");
        let (named, nameless) = listed(&base, Some("f2990.jsonl")).await;
        assert_eq!(named, good[2991..]);
        assert!(nameless.len() >= bad.len(), "{nameless:?}");
    }

    #[tokio::test]
    async fn writers_and_the_removal_of_their_empty_folder_may_meet() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let work = |name: &'static str| {
            let folder = base.join("out/.asap").join(name);
            tokio::spawn(async move {
                let store = Local::default();
                for number in 0..300 {
                    let path = Path::from_absolute_path(folder.join(format!("{number}"))).unwrap();
                    store.put(&path, "x".into()).await.unwrap();
                    store.delete(&path).await.unwrap();
                }
            })
        };
        for done in [work("a"), work("b"), work("c")] {
            done.await.unwrap();
        }
    }

    #[tokio::test]
    async fn only_folders_of_asap_go_with_their_last_file() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        for (file, left) in [
            ("lake/out/_delta_log/0.json", "lake"),
            ("lake/out/.asap/cache/a/1.parquet", "lake"),
            ("lake/out/split=train/lang=py/1.parquet", "lake/out"),
            ("lake/out/1.parquet", "lake/out"),
        ] {
            let path = Path::from_absolute_path(base.join(file)).unwrap();
            let store = Local::default();
            store.put(&path, "x".into()).await.unwrap();
            store.delete(&path).await.unwrap();
            let left_over = base.join(left);
            let is_empty = fs::read_dir(&left_over).unwrap().next().is_none();
            assert!(is_empty, "{file} leaves {left}");
            fs::remove_dir_all(base.join("lake")).unwrap();
        }
    }
}
