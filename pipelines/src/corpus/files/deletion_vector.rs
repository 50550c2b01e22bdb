//! Deletion vectors: rows that are in a Delta table's file but are deleted.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use delta_kernel::actions::deletion_vector::{DeletionVectorDescriptor, DeletionVectorStorageType};
use delta_kernel::{DeltaResult, Error, FileMeta, FileSlice, StorageHandler};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use crate::delta::DeletionVector;

/// The format version, the first byte of a file of deletion vectors.
const FORMAT: u8 = 1;
/// Bytes around a deletion vector in its file: its length before it, its checksum after it.
const LENGTH_BYTES: u64 = 4;
const CHECKSUM_BYTES: u64 = 4;
/// Minimum characters of an inline vector: its first four bytes in base 85.
const LEAST_INLINE: usize = 5;

/// Returns the numbers of the deleted rows, ascending. `folder` is the table's folder.
pub(crate) async fn deleted_rows(
    store: &dyn ObjectStore,
    folder: &Path,
    vector: &DeletionVector,
) -> Result<Arc<[u64]>> {
    let damaged = |error: Error| exec_datafusion_err!("its deletion vector cannot be read: {error}");
    let storage: DeletionVectorStorageType = vector.storage_type.parse().map_err(damaged)?;
    let is_inline = storage == DeletionVectorStorageType::Inline;
    if is_inline && vector.path_or_inline_dv.len() < LEAST_INLINE {
        return exec_err!("its deletion vector cannot be read: it is too short");
    }
    // Only this vector is read, so it is at the start of the bytes passed on.
    let offset = (!is_inline).then_some(size_of_val(&FORMAT) as i32);
    let DeletionVector { path_or_inline_dv, size_in_bytes, cardinality, .. } = vector;
    let descriptor =
        DeletionVectorDescriptor::try_new(storage, path_or_inline_dv, offset, *size_in_bytes, *cardinality);
    let descriptor = descriptor.map_err(damaged)?;
    let table = Url::parse("table:///").map_err(|error| exec_datafusion_err!("{error}"))?;
    let bytes = match descriptor.absolute_path(&table).map_err(damaged)? {
        None => Bytes::new(),
        Some(url) if url.scheme() == table.scheme() => {
            let path = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
            let path = Path::from_iter(folder.parts().chain(path.parts()));
            let start = vector.offset.unwrap_or(FORMAT.into()).unsigned_abs().into();
            let end = start + LENGTH_BYTES + u64::from(size_in_bytes.unsigned_abs()) + CHECKSUM_BYTES;
            let mut bytes = BytesMut::from(&[FORMAT][..]);
            let read = store.get_range(&path, start..end).await;
            bytes.put(read.map_err(|error| exec_datafusion_err!("its deletion vector cannot be read: {error}"))?);
            bytes.freeze()
        }
        Some(url) => return exec_err!("its deletion vector is outside the table, at {url}, which asap does not read"),
    };
    let rows = descriptor.row_indexes(Arc::new(InMemory(bytes)), &table).map_err(damaged)?;
    if rows.len() as i64 != *cardinality {
        return exec_err!("its deletion vector has {} rows, but the log expects {cardinality}", rows.len());
    }
    Ok(rows.into())
}

struct InMemory(Bytes);

impl InMemory {
    fn refuse<T>() -> DeltaResult<T> {
        Err(Error::generic("deletion vectors are read-only"))
    }
}

impl StorageHandler for InMemory {
    fn read_files(&self, _: Vec<FileSlice>) -> DeltaResult<Box<dyn Iterator<Item = DeltaResult<Bytes>>>> {
        Ok(Box::new(std::iter::once(Ok(self.0.clone()))))
    }

    fn list_from(&self, _: &Url) -> DeltaResult<Box<dyn Iterator<Item = DeltaResult<FileMeta>>>> {
        Self::refuse()
    }

    fn copy_atomic(&self, _: &Url, _: &Url) -> DeltaResult<()> {
        Self::refuse()
    }

    fn put(&self, _: &Url, _: Bytes, _: bool) -> DeltaResult<()> {
        Self::refuse()
    }

    fn head(&self, _: &Url) -> DeltaResult<FileMeta> {
        Self::refuse()
    }

    fn delete(&self, _: &Url) -> DeltaResult<()> {
        Self::refuse()
    }
}
