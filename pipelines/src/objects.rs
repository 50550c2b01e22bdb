//! Objects of a store, each of which another process may delete at any time.

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, Result};

/// Turns the error that an object does not exist into None.
pub(crate) fn existing<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An object of this size, whatever its version.
pub(crate) fn of_any_version(location: Path, size: u64) -> ObjectMeta {
    ObjectMeta { location, last_modified: Default::default(), size, e_tag: None, version: None }
}

pub(crate) async fn read(store: &dyn ObjectStore, path: &Path) -> Result<Option<Bytes>> {
    let read = async { store.get(path).await?.bytes().await };
    existing(read.await)
}

/// The objects in a folder and its subfolders. A missing folder has none: some stores keep no empty folders.
pub(crate) async fn list(store: &dyn ObjectStore, folder: &Path) -> Result<Vec<ObjectMeta>> {
    Ok(existing(store.list(Some(folder)).try_collect().await)?.unwrap_or_default())
}

pub(crate) async fn delete(store: &dyn ObjectStore, path: &Path) -> Result<()> {
    existing(store.delete(path).await).map(drop)
}
