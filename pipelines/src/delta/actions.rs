//! The actions of a Delta log that runs read and write, in its JSON form. Others are ignored.

use std::collections::HashMap;

use datafusion::common::{Result, exec_datafusion_err};
use deltalake_core::kernel::Add;
pub use deltalake_core::kernel::Transaction;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    pub commit_info: Option<Value>,
    pub txn: Option<Transaction>,
    pub add: Option<LiveFile>,
    pub remove: Option<Removed>,
    pub meta_data: Option<Metadata>,
    pub protocol: Option<Protocol>,
}

impl Line {
    pub(crate) fn changes_rows(&self) -> bool {
        let of_add = self.add.as_ref().is_some_and(|file| file.data_change);
        of_add || self.remove.as_ref().is_some_and(|file| file.data_change)
    }
}

/// A file whose rows are no longer in the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// The URL-encoded path in the folder of the table.
    pub path: String,
    /// The values of the partition columns, if the writer recorded them.
    #[serde(default)]
    pub partition_values: Option<HashMap<String, Option<String>>>,
    /// Its rows that were deleted before.
    pub deletion_vector: Option<DeletionVector>,
    /// Milliseconds since 1970.
    pub deletion_timestamp: Option<i64>,
    /// Whether its rows were deleted too; if not, other files have them now.
    #[serde(default = "yes")]
    pub data_change: bool,
    /// The number of rows and the bounds of columns, as JSON.
    #[serde(default)]
    pub stats: Option<String>,
}

fn yes() -> bool {
    true
}

/// Deleted rows of a file, and where they are stored. The type of `deltalake_core` refuses an unknown storage type, and
/// with it the whole log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionVector {
    /// `u`: in a file of the table; `i`: inline; `p`: in a file at an absolute path.
    pub storage_type: String,
    /// The file name in base 85, the inline data, or a URL.
    pub path_or_inline_dv: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    pub size_in_bytes: i32,
    pub cardinality: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveFile {
    /// The URL-encoded path in the folder of the table.
    pub path: String,
    #[serde(default)]
    pub partition_values: HashMap<String, Option<String>>,
    pub size: u64,
    pub modification_time: i64,
    pub data_change: bool,
    pub stats: Option<String>,
    pub deletion_vector: Option<DeletionVector>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The format of the files: always Parquet.
    pub format: Value,
    pub schema_string: String,
    /// The columns that divide files into folders.
    pub partition_columns: Vec<String>,
    #[serde(default)]
    pub configuration: HashMap<String, String>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub created_time: Option<i64>,
}

/// The features that readers and writers of a table must support.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    pub min_reader_version: i32,
    pub min_writer_version: i32,
    #[serde(default)]
    pub reader_features: Option<Vec<String>>,
    #[serde(default)]
    pub writer_features: Option<Vec<String>>,
}

impl LiveFile {
    pub(crate) fn location(&self) -> Result<Path> {
        Ok(Path::from_url_path(&self.path).map_err(object_store::Error::from)?)
    }

    pub(crate) fn rows(&self) -> Option<u64> {
        rows_of(self.stats.as_deref())
    }

    /// Returns whether a shard of an output may have rows of an input file, by the bounds of its statistics.
    pub(crate) fn may_have_rows_of(&self) -> impl Fn(&str) -> bool + use<> {
        let statistics = self.stats.as_deref().and_then(|stats| serde_json::from_str::<Value>(stats).ok());
        let bound = |name: &str| Some(statistics.as_ref()?[name]["source"]["file"].as_str()?.to_string());
        let bounds = bound("minValues").zip(bound("maxValues")).filter(|(least, greatest)| least <= greatest);
        move |path| bounds.as_ref().is_none_or(|(least, greatest)| least.as_str() <= path && path <= greatest.as_str())
    }
}

impl Removed {
    /// The number of rows, if the statistics have it.
    pub fn rows(&self) -> Option<u64> {
        rows_of(self.stats.as_deref())
    }
}

/// The number of rows of a file by its statistics, if they have it.
pub(crate) fn rows_of(statistics: Option<&str>) -> Option<u64> {
    serde_json::from_str::<Value>(statistics?).ok()?["numRecords"].as_u64()
}

/// The rows of files without those that deletion vectors delete; None if the log does not have all counts.
pub(crate) fn live_rows<'a>(mut files: impl Iterator<Item = &'a LiveFile>) -> Option<u64> {
    files.try_fold(0, |sum, file| {
        let deleted = file.deletion_vector.as_ref().map_or(0, |vector| vector.cardinality.unsigned_abs());
        Some(sum + file.rows()?.saturating_sub(deleted))
    })
}

pub(crate) fn parse(bytes: &[u8], version: u64) -> Result<Vec<Line>> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.iter().all(u8::is_ascii_whitespace));
    let failed =
        |error| exec_datafusion_err!("version {version} contains an entry that is not a Delta action: {error}");
    lines.map(|line| serde_json::from_slice(line).map_err(failed)).collect()
}

/// Milliseconds since 1970.
fn now() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

pub fn add(shard: &Add) -> String {
    json!({ "add": shard }).to_string()
}

/// The action that removes a file and its rows from the table.
pub fn remove(file: &LiveFile) -> String {
    let LiveFile { path, partition_values, size, deletion_vector, .. } = file;
    let mut remove = json!({ "path": path, "deletionTimestamp": now(), "dataChange": true, "extendedFileMetadata": true,
        "partitionValues": partition_values, "size": size });
    if let Some(vector) = deletion_vector {
        remove["deletionVector"] = json!(vector);
    }
    json!({ "remove": remove }).to_string()
}

pub fn transaction(app_id: &str, version: i64) -> String {
    json!({ "txn": { "appId": app_id, "version": version, "lastUpdated": now() } }).to_string()
}

pub fn metadata(metadata: &Metadata) -> String {
    json!({ "metaData": metadata }).to_string()
}

/// The lines of a commit: its description, in which `more` are fields of asap, and its actions. None without actions.
pub fn commit(operation: &str, mode: &str, more: Value, actions: Vec<String>) -> Vec<String> {
    if actions.is_empty() {
        return vec![];
    }
    let mut info = json!({
        "timestamp": now(),
        "operation": operation,
        "operationParameters": { "mode": mode },
        "engineInfo": concat!("asap ", env!("ASAP_VERSION")),
        "isBlindAppend": mode == "Append",
        // Makes each commit unique, so that it can be found after a lost reply.
        "txnId": uuid::Uuid::new_v4().to_string(),
    });
    info["asap"] = more;
    std::iter::once(json!({ "commitInfo": info }).to_string()).chain(actions).collect()
}
