//! Files on this machine. A deletion also removes the folders of asap that it leaves empty, and no others.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::SystemTime;
use std::{fmt, fs, io};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// Folders that only asap makes, each in the folder of an output.
const OWN: [&str; 2] = ["_delta_log", ".asap"];

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
        self.0.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
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
        self.0.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list_with_offset(prefix, offset)
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
