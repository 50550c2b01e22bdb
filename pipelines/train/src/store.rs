//! The output folder of a training, on this machine or in an object store.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asap_pipelines::location;
use futures::TryStreamExt;
use object_store::buffered::BufWriter;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncWriteExt, BufReader};

use crate::failure::Failure;

const BLOCK_BYTES: usize = 8 << 20;
/// The name prefix of work folders, from which finished files are moved into place.
const WORK: &str = ".asap-";

pub(super) struct Folder(location::Folder);

impl Folder {
    pub(super) fn open(named: &str) -> Result<Self, Failure> {
        Ok(Self(location::Folder::open(&location::folder(named)?)?))
    }

    pub(super) fn shown(&self) -> &str {
        &self.0.shown
    }

    pub(super) fn local(&self) -> Option<&Path> {
        self.0.local.as_deref()
    }

    /// The local folder, which is created if necessary; None in an object store.
    fn created(&self) -> Result<Option<&Path>, Failure> {
        let Some(folder) = self.local() else { return Ok(None) };
        fs::create_dir_all(folder).map_err(self.failed("cannot be created"))?;
        Ok(Some(folder))
    }

    /// Locks a local folder against other trainings until the result is dropped.
    pub(crate) fn take_alone(&self) -> Result<Option<Alone>, Failure> {
        let Some(folder) = self.created()? else { return Ok(None) };
        let lock = File::open(folder).map_err(self.failed("cannot be opened"))?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(Failure::Failed(format!("{}: another asap train uses it; wait for it to end", self.shown())));
        }
        // Some file systems do not support locks.
        Ok(Some(Alone { folder: folder.to_path_buf(), _lock: lock }))
    }

    /// Free bytes where checkpoints are made: in the folder, or for an object store in the local temporary folder. None
    /// if unknown.
    pub(crate) fn free_bytes(&self) -> Option<(PathBuf, u64)> {
        let folder = self.local().map_or_else(std::env::temp_dir, Path::to_path_buf);
        let found = nix::sys::statvfs::statvfs(&folder).ok()?;
        Some((folder, found.blocks_available() * found.fragment_size()))
    }

    pub(crate) fn clear_work(&self) -> Result<(), Failure> {
        let Some(folder) = self.local().filter(|folder| folder.exists()) else { return Ok(()) };
        for entry in fs::read_dir(folder).map_err(self.failed("cannot be listed"))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(WORK) {
                fs::remove_dir_all(entry.path()).map_err(self.failed(format!("{name} cannot be removed")))?;
            }
        }
        Ok(())
    }

    pub(crate) async fn holds_files(&self) -> Result<bool, Failure> {
        let first = self.0.store.list(None).try_next().await;
        Ok(first.map_err(self.failed("cannot be listed"))?.is_some())
    }

    /// A work folder, on the same file system as a local output.
    pub(super) fn work(&self) -> Result<TempDir, Failure> {
        let mut made = tempfile::Builder::new();
        made.prefix(WORK);
        let made = self.created()?.map_or_else(|| made.tempdir(), |folder| made.tempdir_in(folder));
        made.map_err(self.failed("a temporary folder cannot be created"))
    }

    pub(super) async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let read = async { self.0.store.get(&name.into()).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(format!("{name} cannot be read"))(error)),
        }
    }

    /// Reads what [`Folder::write_json`] wrote, if it exists.
    pub(super) async fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.read(name).await? else { return Ok(None) };
        let read = serde_json::from_slice(&text);
        read.map(Some).map_err(self.failed(format!("{name} is from another asap version")))
    }

    pub(super) async fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.write(name, serde_json::to_vec_pretty(value)?).await
    }

    pub(super) async fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), Failure> {
        let put = self.0.store.put(&name.into(), bytes.into()).await;
        put.map(drop).map_err(self.failed(format!("{name} cannot be written")))
    }

    /// Extends a file that has the first `has` of these bytes. A local file grows, so that its readers see the new
    /// bytes; an object is rewritten.
    pub(super) async fn extend(&self, name: &str, bytes: &[u8], has: usize) -> Result<(), Failure> {
        let Some(folder) = self.local() else { return self.write(name, bytes.to_vec()).await };
        let path = folder.join(name);
        let extend = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let mut file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.set_len(has as u64)?;
            file.seek(SeekFrom::End(0))?;
            file.write_all(&bytes[has..])
        };
        extend().map_err(self.failed::<io::Error>(format!("{name} cannot be written")))
    }

    /// Moves the files of [`Folder::work`] to a folder of this one, or uploads them. Returns their sizes and hashes.
    pub(super) async fn put_all(&self, work: &TempDir, to: &str) -> Result<BTreeMap<String, Stored>, Failure> {
        let mut stored = BTreeMap::new();
        for entry in fs::read_dir(work.path())? {
            let from = entry?.path();
            let file = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = format!("{to}{file}");
            let put = self.put(&name, &from).await;
            stored.insert(file, put.map_err(self.failed(format!("{name} cannot be written")))?);
        }
        Ok(stored)
    }

    async fn put(&self, name: &str, from: &Path) -> io::Result<Stored> {
        let stored = Stored::of(from)?;
        let Some(folder) = self.local() else {
            let upload = BufWriter::with_capacity(Arc::clone(&self.0.store), name.into(), BLOCK_BYTES);
            let mut upload = upload.with_max_concurrency(2);
            let file = tokio::fs::File::open(from).await?;
            tokio::io::copy_buf(&mut BufReader::with_capacity(BLOCK_BYTES, file), &mut upload).await?;
            upload.shutdown().await?;
            return Ok(stored);
        };
        let to = folder.join(name);
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        let file = File::open(from)?;
        // Others may read the model if they may read its folder.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.sync_all()?;
        fs::rename(from, &to)?;
        Ok(stored)
    }

    /// Fetches a file to this machine and checks its size and hash.
    pub(super) async fn fetch(&self, name: &str, expected: &Stored, to: &Path) -> Result<(), Failure> {
        let fetch = async {
            let mut blocks = self.0.store.get(&name.into()).await?.into_stream();
            let mut file = File::create(to)?;
            while let Some(block) = blocks.try_next().await? {
                file.write_all(&block)?;
            }
            match Stored::of(to)? == *expected {
                true => Ok(()),
                false => Err(io::Error::other("its size or hash differs from that of the stored file")),
            }
        };
        fetch.await.map_err(self.failed(format!("{name} cannot be read")))
    }

    pub(super) async fn list(&self, below: &str) -> Result<Vec<ObjectMeta>, Failure> {
        match self.0.store.list(Some(&below.into())).try_collect().await {
            Err(Error::NotFound { .. }) => Ok(vec![]),
            listed => listed.map_err(self.failed(format!("{below} cannot be listed"))),
        }
    }

    /// Removes the files below a folder. `first`, which marks the folder as complete, goes first.
    pub(super) async fn remove(&self, below: &str, first: &str) -> Result<(), Failure> {
        let mut names: Vec<_> = self.list(below).await?.into_iter().map(|file| file.location.to_string()).collect();
        names.sort_by_key(|name| !name.ends_with(first));
        for name in names {
            self.0.remove(&name).await.map_err(self.failed(format!("{name} cannot be removed")))?;
        }
        if let Some(folder) = self.local() {
            // The local folder is now empty. An object store has no folder to remove.
            let _ = fs::remove_dir(folder.join(below));
        }
        Ok(())
    }

    fn failed<E: std::error::Error + 'static>(&self, what: impl Display) -> impl FnOnce(E) -> Failure {
        move |error| Failure::by(&error, format!("{}: {what}: {error}", self.shown()))
    }
}

#[derive(Debug)]
pub(super) struct Alone {
    folder: PathBuf,
    _lock: File,
}

impl Drop for Alone {
    fn drop(&mut self) {
        // If nothing was written, this removes the empty folder. Otherwise it fails, and the folder stays.
        drop(fs::remove_dir(&self.folder));
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub size: u64,
    pub sha256: String,
}

impl Stored {
    fn of(path: &Path) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let size = tokio::task::block_in_place(|| io::copy(&mut File::open(path)?, &mut hash))?;
        Ok(Self { size, sha256: format!("{:x}", hash.finalize()) })
    }
}
