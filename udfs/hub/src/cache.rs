//! The Hub's cache on this machine, in the layout that Hugging Face's tools share:
//!
//! ```text
//! models--org--name/refs/main                  the commit of a branch or tag
//! models--org--name/snapshots/COMMIT/FILE      a link to a blob
//! models--org--name/blobs/ETAG                 the content of a file
//! .locks/models--org--name/ETAG.lock           held while a blob is written
//! ```

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::environment::home;
use crate::{HubError, Result};

const TICK: Duration = Duration::from_millis(100);

/// The part of the cache that belongs to a model.
#[derive(Debug, Clone)]
pub(crate) struct Cached {
    cache: PathBuf,
    folder: String,
}

/// Returns the cache; None without a home folder.
pub(crate) fn cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HF_HUB_CACHE").or_else(|| set("HUGGINGFACE_HUB_CACHE")).or_else(|| Some(home(&variable)?.join("hub")))
}

impl Cached {
    pub(crate) fn new(cache: &Path, name: &str) -> Self {
        Self { cache: cache.to_path_buf(), folder: format!("models--{}", name.replace('/', "--")) }
    }

    fn below(&self, kind: &str) -> PathBuf {
        self.cache.join(&self.folder).join(kind)
    }

    /// The commit that a branch or tag had when it was fetched.
    pub(crate) fn commit(&self, revision: &str) -> Option<String> {
        let pointed = fs::read_to_string(self.below("refs").join(revision)).ok()?;
        Some(pointed.trim().to_string()).filter(|commit| !commit.is_empty())
    }

    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.below("snapshots").join(commit)
    }

    pub(crate) fn blob(&self, etag: &str) -> PathBuf {
        self.below("blobs").join(etag)
    }

    /// Waits until no other process writes a blob, and keeps it so while the file is open.
    pub(crate) async fn lock(&self, etag: &str) -> Result<File> {
        let path = self.cache.join(".locks").join(&self.folder).join(format!("{etag}.lock"));
        let failed = HubError::writing(&path);
        create_parent(&path)?;
        loop {
            let file = OpenOptions::new().create(true).append(true).open(&path).map_err(&failed)?;
            match file.try_lock() {
                // Other tools may delete the file when they release it.
                Ok(()) if file.metadata().map_err(&failed)?.nlink() == 0 => {}
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(TICK).await,
            }
        }
    }

    /// Gives a blob the name of a file in a snapshot.
    pub(crate) fn link(&self, commit: &str, name: &str, etag: &str) -> Result<()> {
        let path = self.snapshot(commit).join(name);
        create_parent(&path)?;
        match symlink(Path::new("../../blobs").join(etag), &path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(HubError::writing(&path)(error)),
            _ => Ok(()),
        }
    }

    /// Records the commit of a branch or tag.
    pub(crate) fn point(&self, revision: &str, commit: &str) -> Result<()> {
        if revision == commit {
            return Ok(());
        }
        let path = self.below("refs").join(revision);
        create_parent(&path)?;
        fs::write(&path, commit).map_err(HubError::writing(&path))
    }
}

pub(crate) fn create_parent(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(HubError::writing(folder))
}
