//! A file of a corpus.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::ObjectMeta;
use object_store::path::Path;
use tempfile::TempPath;

use crate::delta::DeletionVector;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusFile {
    /// Its name in `source`: the path below the location.
    pub path: String,
    /// Its name for users: its local path, else its URL.
    pub name: String,
    pub store_url: ObjectStoreUrl,
    pub meta: ObjectMeta,
    /// Columns from its folder names (`split=train`) or from its table's log, with the same value in every row.
    pub partitions: Vec<(String, Option<String>)>,
    /// Its entry in the table's log; None for plain files.
    pub in_table: Option<Arc<InTable>>,
    /// The converted file that is read in its place, if any.
    pub temporary: Option<Temporary>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InTable {
    pub columns: SchemaRef,
    pub folder: Path,
    pub fingerprint: String,
    pub deletion_vector: Option<DeletionVector>,
    /// The version of the table that removed the file, if it is read nevertheless.
    pub removed_in: Option<u64>,
}

impl CorpusFile {
    pub(crate) fn not_found(&self, error: object_store::Error) -> DataFusionError {
        match self.in_table.as_ref().and_then(|table| table.removed_in) {
            None => error.into(),
            Some(version) => exec_datafusion_err!(
                "version {version} of its table replaced it, and it was vacuumed before all of its rows were read: refill \
                 the output with --new-generation"
            ),
        }
    }
}

/// A temporary file, deleted with its last owner.
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
