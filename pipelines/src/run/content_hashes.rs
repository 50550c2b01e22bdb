//! Content hashes of local files, computed again only if the size or time of a file changed. A recently written file is
//! always hashed: it may change again within the same clock tick.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::common::{Result, exec_datafusion_err};
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};

const OBJECT: &str = "hashes.json";
/// The age at which the time of a file identifies its content.
const SETTLED: Duration = Duration::from_secs(2);

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Contents {
    files: BTreeMap<String, Known>,
    #[serde(skip)]
    changed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    size: u64,
    modified: u64,
    blake3: String,
}

impl Contents {
    /// Loads the hashes stored next to a table. They are only a cache: without them everything is hashed again.
    pub(crate) async fn load(asap_folder: &dyn ObjectStore) -> Self {
        let Ok(found) = asap_folder.get(&OBJECT.into()).await else { return Self::default() };
        let bytes = found.bytes().await.unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub(crate) async fn save(&self, asap_folder: &dyn ObjectStore) {
        let Some(bytes) = serde_json::to_vec(self).ok().filter(|_| self.changed) else { return };
        if let Err(error) = asap_folder.put(&OBJECT.into(), PutPayload::from(bytes)).await {
            tracing::warn!(%error, "the hashes of the input files were not saved: the next run reads these files again");
        }
    }

    pub(crate) fn of_file(&mut self, path: &Path) -> Result<String> {
        let failed = |error: std::io::Error| exec_datafusion_err!("cannot read {}: {error}", path.display());
        let found = path.metadata().map_err(failed)?;
        let modified = found.modified().map_err(failed)?;
        let nanoseconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let key = path.display().to_string();
        if let Some(known) =
            self.files.get(&key).filter(|known| known.size == found.len() && known.modified == nanoseconds)
        {
            return Ok(known.blake3.clone());
        }
        let hash = hash_of(path).map_err(failed)?;
        if SystemTime::now().duration_since(modified).is_ok_and(|age| age > SETTLED) {
            self.changed = true;
            self.files.insert(key, Known { size: found.len(), modified: nanoseconds, blake3: hash.clone() });
        }
        Ok(hash)
    }

    /// The hash of the names and contents of the files of a model. None if there is no folder.
    pub(crate) fn of_folder(&mut self, folder: &Path) -> Result<Option<String>> {
        if !folder.is_dir() {
            return Ok(None);
        }
        let mut all = blake3::Hasher::new();
        for path in asap_lm::model_files(folder).map_err(asap_udfs::models::failed)? {
            let name = path.file_name().map(|name| name.as_encoded_bytes()).unwrap_or_default();
            all.update(&(name.len() as u64).to_le_bytes());
            all.update(name);
            all.update(self.of_file(&path)?.as_bytes());
        }
        Ok(Some(hex(all.finalize().as_bytes())))
    }
}

pub(crate) fn hex(hash: &[u8]) -> String {
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn hash_of(path: &Path) -> std::io::Result<String> {
    let mut hash = blake3::Hasher::new();
    hash.update_reader(std::fs::File::open(path)?)?;
    Ok(hex(hash.finalize().as_bytes()))
}

#[cfg(test)]
mod tests {
    use crate::run::content_hashes::*;

    #[test]
    fn a_file_that_has_not_changed_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let old = SystemTime::now() - Duration::from_secs(60);
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        };
        let mut contents = Contents::default();
        write("one");
        let one = contents.of_file(&path).unwrap();
        // The same size and time pass for the same content.
        write("two");
        assert_eq!(contents.of_file(&path).unwrap(), one);
        std::fs::write(&path, "two").unwrap();
        let two = contents.of_file(&path).unwrap();
        assert_ne!(two, one);
        // Too young to be remembered.
        assert_eq!(contents.files.values().next().unwrap().blake3, one);
    }
}
