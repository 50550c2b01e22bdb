//! Objects of a store, each of which another process may delete at any time.

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::{self, Path};
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, Result};

/// Turns the error that an object does not exist into None.
pub(crate) fn existing<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A name in a listing that is no path. The stores of [`crate::location`] return it as an error, and resume.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{name:?} {reason}, which no store supports: rename it or remove it")]
pub(crate) struct Nameless {
    /// The name below the root of the store.
    pub name: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Nameless {
    /// The name that an error of a listing is about.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        use path::Error::{BadSegment, EmptySegment, NonUnicode};
        let (name, reason) = match error {
            Error::Generic { source, .. } => return source.downcast_ref().cloned(),
            Error::InvalidPath { source: BadSegment { path, .. } } => {
                (path.clone(), "has a control character or a part . or .. in its name")
            }
            Error::InvalidPath { source: EmptySegment { path } } => (path.clone(), "has an empty part in its name"),
            // Such names come only from disks, and as URLs.
            Error::InvalidPath { source: NonUnicode { path, .. } } => {
                let name = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
                (name, "has a name that is not UTF-8")
            }
            _ => return None,
        };
        Some(Self { name, reason })
    }

    /// The same error, but in a sentence that shows the name and says what to do.
    pub(crate) fn explain(error: Error) -> Error {
        Self::of(&error).map_or(error, Error::from)
    }
}

impl From<Nameless> for Error {
    fn from(nameless: Nameless) -> Self {
        Self::Generic { store: "listing", source: Box::new(nameless) }
    }
}

/// The objects of a listing whose names are paths. For listings in which others have no meaning.
pub(crate) fn named(listed: BoxStream<'_, Result<ObjectMeta>>) -> BoxStream<'_, Result<ObjectMeta>> {
    let is_named = |file: &Result<ObjectMeta>| !file.as_ref().is_err_and(|error| Nameless::of(error).is_some());
    listed.filter(move |file| std::future::ready(is_named(file))).boxed()
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
