//! A file of a corpus.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::ObjectMeta;
use object_store::path::Path;
use tempfile::TempPath;

use crate::delta::DeletionVector;

/// A file of a corpus, as its store lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusFile {
    /// What `source` calls it: its path below the location that was asked for.
    pub path: String,
    /// What people know it by: its path on this machine, else its URL.
    pub name: String,
    pub store_url: ObjectStoreUrl,
    /// Where it lies in the store, its size in bytes, its time and its ETag.
    pub meta: ObjectMeta,
    /// Columns that the names of its folders (`split=train`), or the log of its table, give to every row.
    pub partitions: Vec<(String, Option<String>)>,
    /// What the log of its table says of it; None if it is of no table.
    pub in_table: Option<Arc<InTable>>,
    /// What it is read from, if that was made of it.
    pub temporary: Option<Temporary>,
}

/// What the log of a table says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InTable {
    pub columns: SchemaRef,
    pub folder: Path,
    pub fingerprint: String,
    pub deletion_vector: Option<DeletionVector>,
    /// The version of the table that took the file out, if it is read all the same.
    pub removed_in: Option<u64>,
}

impl CorpusFile {
    pub(crate) fn not_found(&self, error: object_store::Error) -> DataFusionError {
        match self.in_table.as_ref().and_then(|table| table.removed_in) {
            None => error.into(),
            Some(version) => exec_datafusion_err!(
                "version {version} of its table replaced it, and it was vacuumed before all of its rows were read: fill the \
                 output anew with --new-generation"
            ),
        }
    }
}

/// A temporary file, which goes with its last owner.
#[derive(Debug, Clone)]
pub struct Temporary {
    pub(crate) file: Arc<TempPath>,
    pub(crate) note: Option<String>,
}

impl PartialEq for Temporary {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }
}

impl Eq for Temporary {}
