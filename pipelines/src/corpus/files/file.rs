//! A file of a corpus, and reads of its listed version.

use std::sync::Arc;

use asap_kernels::front_end::Flag;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::scalar::ScalarValue;
use object_store::ObjectMeta;
use object_store::path::Path;
use tempfile::TempPath;

use crate::delta::DeletionVector;

/// The first and last bytes of a Parquet file.
pub(crate) const MAGIC: &[u8] = b"PAR1";

#[derive(Debug, Clone)]
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

#[derive(Debug, Clone)]
pub struct InTable {
    pub columns: SchemaRef,
    pub folder: Path,
    pub fingerprint: String,
    pub deletion_vector: Option<DeletionVector>,
    /// The version of the table that removed the file, if it is read nevertheless.
    pub removed_in: Option<u64>,
}

impl CorpusFile {
    /// The value of a column from the file's folder names or its table's log; NULL if neither has one.
    pub(crate) fn given_value(&self, field: &Field) -> Result<ScalarValue> {
        let given = self.partitions.iter().find(|(key, _)| key == field.name()).and_then(|(_, value)| value.clone());
        match given {
            None => ScalarValue::try_new_null(field.data_type()),
            Some(value) => ScalarValue::try_from_string(value.clone(), field.data_type()).map_err(|_| {
                let (column, kind) = (field.name(), field.data_type());
                exec_datafusion_err!("the partition {column}={value} of {} is not {kind}", self.name)
            }),
        }
    }

    pub(crate) fn not_found(&self, error: object_store::Error) -> DataFusionError {
        match self.in_table.as_ref().and_then(|table| table.removed_in) {
            None => error.into(),
            Some(version) => exec_datafusion_err!(
                "version {version} of its table replaced it, and it was vacuumed before all of its rows were read: refill \
                 the output with {}",
                Flag("--new-generation")
            ),
        }
    }
}

/// A temporary file, deleted with its last owner.
#[derive(Debug, Clone)]
pub struct Temporary {
    pub(crate) _file: Arc<TempPath>,
    pub(crate) notes: Vec<String>,
}
