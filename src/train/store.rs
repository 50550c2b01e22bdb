//! The output folder of a training, on this machine or in an object store.

use std::fs::TryLockError;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asap_pipelines::location;
use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use url::Url;

use crate::failure::Failure;

const BLOCK_BYTES: usize = 8 << 20;
/// The name prefix of work folders, from which finished files are moved into place.
const WORK: &str = ".asap-";

pub(super) struct Folder {
    url: Url,
    store: Arc<dyn ObjectStore>,
}

impl Folder {
    pub(super) fn open(named: &str) -> Result<Self, Failure> {
        let url = location::folder(named)?;
        let path = ObjectPath::from_url_path(url.path()).map_err(|error| Failure::Usage(error.to_string()))?;
        let store = location::store(&url)?;
        Ok(Self { store: Arc::new(PrefixStore::new(store, path)), url })
    }

    pub(super) fn shown(&self) -> String {
        location::display(&self.url)
    }

    pub(super) fn local(&self) -> Option<PathBuf> {
        location::local_path(&self.url)
    }

    /// Locks a local folder against other trainings until the result is dropped.
    pub(crate) fn take_alone(&self) -> Result<Option<Alone>, Failure> {
        let Some(folder) = self.local() else { return Ok(None) };
        std::fs::create_dir_all(&folder).map_err(|error| self.failed("cannot be created", &error))?;
        let lock = std::fs::File::open(&folder).map_err(|error| self.failed("cannot be opened", &error))?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(Failure::Failed(format!("{}: another asap train uses it; wait for it to end", self.shown())));
        }
        // Some file systems do not support locks.
        Ok(Some(Alone { folder, _lock: lock }))
    }

    /// Free bytes where checkpoints are made: in the folder, or for an object store in the local temporary folder. None
    /// if unknown.
    pub(crate) fn free_bytes(&self) -> Option<(PathBuf, u64)> {
        let folder = self.local().unwrap_or_else(std::env::temp_dir);
        let found = nix::sys::statvfs::statvfs(&folder).ok()?;
        Some((folder, found.blocks_available() * found.fragment_size()))
    }

    pub(crate) fn clear_work(&self) -> Result<(), Failure> {
        let Some(folder) = self.local().filter(|folder| folder.exists()) else { return Ok(()) };
        let entries = std::fs::read_dir(&folder).map_err(|error| self.failed("cannot be listed", &error))?;
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(WORK) {
                std::fs::remove_dir_all(entry.path())
                    .map_err(|error| self.failed(&format!("{name} cannot be removed"), &error))?;
            }
        }
        Ok(())
    }

    pub(crate) async fn holds_files(&self) -> Result<bool, Failure> {
        let first = self.store.list(None).try_next().await;
        first.map(|file| file.is_some()).map_err(|error| self.failed("cannot be listed", &error))
    }

    /// A work folder, on the same file system as a local output.
    pub(super) fn work(&self) -> Result<TempDir, Failure> {
        let made = match self.local() {
            Some(folder) => {
                std::fs::create_dir_all(&folder).map_err(|error| self.failed("cannot be created", &error))?;
                tempfile::Builder::new().prefix(WORK).tempdir_in(folder)
            }
            None => tempfile::Builder::new().prefix(WORK).tempdir(),
        };
        made.map_err(|error| self.failed("a temporary folder cannot be created", &error))
    }

    pub(super) async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        match self.store.get(&ObjectPath::from(name)).await {
            Ok(found) => {
                let bytes =
                    found.bytes().await.map_err(|error| self.failed(&format!("{name} cannot be read"), &error))?;
                Ok(Some(bytes.to_vec()))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(&format!("{name} cannot be read"), &error)),
        }
    }

    /// Extends a file that has the first `has` of these bytes. A local file grows, so that its readers see the new
    /// bytes; an object is rewritten.
    pub(super) async fn extend(&self, name: &str, bytes: &[u8], has: usize) -> Result<(), Failure> {
        let Some(folder) = self.local() else { return self.write(name, bytes.to_vec()).await };
        let path = folder.join(name);
        let extended = (|| {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            let mut file = std::fs::File::options().create(true).truncate(false).write(true).open(&path)?;
            file.set_len(has as u64)?;
            file.seek(SeekFrom::End(0))?;
            file.write_all(&bytes[has..])
        })();
        extended.map_err(|error: std::io::Error| self.failed(&format!("{name} cannot be written"), &error))
    }

    pub(super) async fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), Failure> {
        let put = self.store.put(&ObjectPath::from(name), PutPayload::from(bytes)).await;
        put.map(drop).map_err(|error| self.failed(&format!("{name} cannot be written"), &error))
    }

    /// Moves a file of [`Folder::work`] into place, or uploads it. Returns its size and hash.
    pub(super) async fn put(&self, name: &str, from: &Path) -> Result<Stored, Failure> {
        let failed = |error: &dyn std::fmt::Display| self.failed(&format!("{name} cannot be written"), error);
        let stored = Stored::of(from).await.map_err(|error| failed(&error))?;
        if let Some(folder) = self.local() {
            let to = folder.join(name);
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent).map_err(|error| failed(&error))?;
            }
            let file = std::fs::File::open(from).map_err(|error| failed(&error))?;
            // Others may read the model if they may read its folder.
            file.set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(|error| failed(&error))?;
            file.sync_all().map_err(|error| failed(&error))?;
            std::fs::rename(from, &to).map_err(|error| failed(&error))?;
            return Ok(stored);
        }
        let upload = self.store.put_multipart(&ObjectPath::from(name)).await.map_err(|error| failed(&error))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, BLOCK_BYTES);
        let mut file = tokio::fs::File::open(from).await.map_err(|error| failed(&error))?;
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            upload.wait_for_capacity(2).await.map_err(|error| failed(&error))?;
            match file.read(&mut block).await.map_err(|error| failed(&error))? {
                0 => break,
                read => upload.write(&block[..read]),
            }
        }
        upload.finish().await.map_err(|error| failed(&error))?;
        Ok(stored)
    }

    /// Fetches a file to this machine and checks its size and hash.
    pub(super) async fn fetch(&self, name: &str, expected: &Stored, to: &Path) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| self.failed(&format!("{name} cannot be read"), error);
        let found = self.store.get(&ObjectPath::from(name)).await.map_err(|error| failed(&error))?;
        let mut bytes = found.into_stream();
        let mut file = tokio::fs::File::create(to).await.map_err(|error| failed(&error))?;
        while let Some(block) = bytes.try_next().await.map_err(|error| failed(&error))? {
            tokio::io::AsyncWriteExt::write_all(&mut file, &block).await.map_err(|error| failed(&error))?;
        }
        tokio::io::AsyncWriteExt::flush(&mut file).await.map_err(|error| failed(&error))?;
        drop(file);
        let found = Stored::of(to).await.map_err(|error| failed(&error))?;
        if found != *expected {
            return Err(failed(&"its size or hash differs from that of the stored file"));
        }
        Ok(())
    }

    pub(super) async fn list(&self, below: &str) -> Result<Vec<String>, Failure> {
        let prefix = ObjectPath::from(below);
        let names = self.store.list(Some(&prefix)).map_ok(|file| file.location.to_string());
        let listed: Result<Vec<String>, object_store::Error> = names.try_collect().await;
        match listed {
            Err(object_store::Error::NotFound { .. }) => Ok(vec![]),
            listed => listed.map_err(|error| self.failed(&format!("{below} cannot be listed"), &error)),
        }
    }

    pub(super) async fn bytes(&self, below: &str) -> Result<u64, Failure> {
        let listed = self.store.list(Some(&ObjectPath::from(below)));
        match listed.try_fold(0, |sum, file| async move { Ok(sum + file.size) }).await {
            Err(object_store::Error::NotFound { .. }) => Ok(0),
            summed => summed.map_err(|error| self.failed(&format!("{below} cannot be listed"), &error)),
        }
    }

    /// Removes the files below a folder. `first`, which marks the folder as complete, goes first.
    pub(super) async fn remove(&self, below: &str, first: &str) -> Result<(), Failure> {
        let mut names = self.list(below).await?;
        names.sort_by_key(|name| !name.ends_with(first));
        for name in names {
            match self.store.delete(&ObjectPath::from(name.as_str())).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed(&format!("{name} cannot be removed"), &error)),
            }
        }
        if let Some(folder) = self.local() {
            // Object stores have no folders, and this one is empty.
            let _ = std::fs::remove_dir(folder.join(below));
        }
        Ok(())
    }

    fn failed(&self, what: &str, error: &dyn std::fmt::Display) -> Failure {
        Failure::Failed(format!("{}: {what}: {error}", self.shown()))
    }
}

#[derive(Debug)]
pub(super) struct Alone {
    folder: PathBuf,
    _lock: std::fs::File,
}

impl Drop for Alone {
    fn drop(&mut self) {
        // Succeeds only if the folder is empty, because nothing was written.
        drop(std::fs::remove_dir(&self.folder));
    }
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Stored {
    pub size: u64,
    pub sha256: String,
}

impl Stored {
    async fn of(path: &Path) -> std::io::Result<Self> {
        let mut file = tokio::fs::File::open(path).await?;
        let (mut hash, mut block, mut size) = (Sha256::new(), vec![0; BLOCK_BYTES], 0);
        loop {
            match file.read(&mut block).await? {
                0 => return Ok(Self { size, sha256: format!("{:x}", hash.finalize()) }),
                read => {
                    hash.update(&block[..read]);
                    size += read as u64;
                }
            }
        }
    }
}
