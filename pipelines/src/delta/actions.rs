//! The actions of a Delta log that runs read and write, as its JSON has them. Others are passed over.

use std::collections::HashMap;

use datafusion::common::{Result, exec_datafusion_err};
use deltalake_core::kernel::Add;
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    pub txn: Option<Transaction>,
    pub add: Option<LiveFile>,
    pub remove: Option<Removed>,
    pub meta_data: Option<Metadata>,
    pub protocol: Option<Protocol>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transaction {
    pub app_id: String,
    pub version: i64,
    #[serde(default)]
    pub last_updated: Option<i64>,
}

/// A file whose rows are the table's no more.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// Its path in the table's folder, as the log has it: a part of a URL.
    pub path: String,
    /// The values of the table's partition columns, if who removed it said them.
    #[serde(default)]
    pub partition_values: Option<HashMap<String, Option<String>>>,
    /// Which of its rows were deleted before.
    pub deletion_vector: Option<DeletionVector>,
    /// When it was removed, in milliseconds since 1970.
    pub deletion_timestamp: Option<i64>,
    /// Whether its rows went with it; if not, other files hold them now.
    #[serde(default = "yes")]
    pub data_change: bool,
    /// Its rows, and the bounds of its columns, as JSON.
    #[serde(default)]
    pub stats: Option<String>,
}

fn yes() -> bool {
    true
}

/// Rows of a file that are deleted, and where they are written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionVector {
    /// `u`: in a file of the table; `i`: here; `p`: in a file anywhere.
    pub storage_type: String,
    /// The file's name in base 85, or the rows themselves, or a URL.
    pub path_or_inline_dv: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    pub size_in_bytes: i32,
    pub cardinality: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveFile {
    /// Its path in the table's folder, as the log has it: a part of a URL.
    pub path: String,
    #[serde(default)]
    pub partition_values: HashMap<String, Option<String>>,
    pub size: u64,
    pub modification_time: i64,
    pub data_change: bool,
    pub stats: Option<String>,
    pub deletion_vector: Option<DeletionVector>,
}

/// What a log says of its table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The table's id.
    pub id: String,
    /// The name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The description, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How files are encoded: always Parquet.
    pub format: Value,
    /// The columns, as Delta's JSON.
    pub schema_string: String,
    /// The columns by which files are divided into folders.
    pub partition_columns: Vec<String>,
    /// The table's properties.
    #[serde(default)]
    pub configuration: HashMap<String, String>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub created_time: Option<i64>,
}

/// What readers and writers must know to use a table.
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
        self.statistics()?.get("numRecords")?.as_u64()
    }

    /// The least and the greatest value of a field of a struct in it, if its statistics hold them.
    pub(crate) fn bounds(&self, column: &str, field: &str) -> Option<(Value, Value)> {
        let statistics = self.statistics()?;
        let of = |bound: &str| statistics.get(bound)?.get(column)?.get(field).cloned();
        Some((of("minValues")?, of("maxValues")?))
    }

    fn statistics(&self) -> Option<Value> {
        serde_json::from_str(self.stats.as_deref()?).ok()
    }
}

impl Removed {
    /// How many rows it held, as far as its statistics say.
    pub fn rows(&self) -> Option<u64> {
        serde_json::from_str::<Value>(self.stats.as_deref()?).ok()?.get("numRecords")?.as_u64()
    }
}

pub(crate) fn parse(bytes: &[u8], version: u64) -> Result<Vec<Line>> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.iter().all(u8::is_ascii_whitespace));
    lines.map(|line| serde_json::from_slice(line).map_err(|error| not_an_action(version, &error))).collect()
}

/// An action that cannot be read, in the commit or checkpoint of a version.
pub(crate) fn not_an_action(version: u64, error: &serde_json::Error) -> datafusion::common::DataFusionError {
    exec_datafusion_err!("version {version} holds what is no action of Delta: {error}")
}

/// The action that adds a shard.
pub fn add(shard: &Add) -> String {
    json!({ "add": shard }).to_string()
}

/// The action that takes a file's rows out of the table.
pub fn remove(file: &LiveFile, now: i64) -> String {
    let LiveFile { path, partition_values, size, deletion_vector, .. } = file;
    let mut remove = json!({ "path": path, "deletionTimestamp": now, "dataChange": true, "extendedFileMetadata": true,
        "partitionValues": partition_values, "size": size });
    if let Some(vector) = deletion_vector {
        remove["deletionVector"] = json!(vector);
    }
    json!({ "remove": remove }).to_string()
}

pub fn transaction(app_id: &str, version: i64, now: i64) -> String {
    json!({ "txn": { "appId": app_id, "version": version, "lastUpdated": now } }).to_string()
}

/// The action that changes a table's schema or properties.
pub fn metadata(metadata: &Metadata) -> String {
    json!({ "metaData": metadata }).to_string()
}

/// The action that says what a commit is; `more` are fields of our own.
pub fn commit_info(operation: &str, mode: &str, now: i64, more: Value) -> String {
    let mut info = json!({
        "timestamp": now,
        "operation": operation,
        "operationParameters": { "mode": mode },
        "engineInfo": concat!("asap ", env!("CARGO_PKG_VERSION")),
        "isBlindAppend": mode == "Append",
        // No two commits are equal, so that a lost reply can be told from another's commit.
        "txnId": uuid::Uuid::new_v4().to_string(),
    });
    info["asap"] = more;
    json!({ "commitInfo": info }).to_string()
}
