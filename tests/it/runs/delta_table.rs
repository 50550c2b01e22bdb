//! Delta tables as an input, with handwritten logs.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::runs::place::{File, Place};
use crate::support::table::{checkpoint, forget_commits};

/// The path of a file of deletion vectors with the name [`VECTORS`] in a log. Both are an example of the protocol.
pub(crate) const VECTORS_FILE: &str = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin";
pub(crate) const VECTORS: &str = "ab^-aqEH.-t@S}K{vb[*k^";

pub(crate) struct Table<'a> {
    place: &'a Place,
    folder: &'a str,
    next: Cell<u64>,
}

pub(crate) fn column(name: &str, data_type: &str) -> Value {
    json!({ "name": name, "type": data_type, "nullable": true, "metadata": {} })
}

pub(crate) fn columns() -> Vec<Value> {
    ["id", "question", "cot", "answer"].map(|name| column(name, "string")).to_vec()
}

pub(crate) fn metadata(columns: &[Value], partition_by: &[&str], configuration: Value) -> Value {
    let schema = json!({ "type": "struct", "fields": columns }).to_string();
    json!({ "metaData": { "id": "a-table", "format": { "provider": "parquet", "options": {} }, "schemaString": schema,
        "partitionColumns": partition_by, "configuration": configuration, "createdTime": 0 } })
}

/// The features that readers of the table must support.
pub(crate) fn protocol(reader_features: &[&str]) -> Value {
    json!({ "protocol": { "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader_features,
        "writerFeatures": reader_features } })
}

impl<'a> Table<'a> {
    /// An empty table with the columns of [`Place::put`] at `in`.
    pub(crate) fn new(place: &'a Place) -> Self {
        let table = Self::at(place, "in");
        table.commit(&[protocol(&["deletionVectors"]), metadata(&columns(), &[], json!({}))]);
        table
    }

    pub(crate) fn at(place: &'a Place, folder: &'a str) -> Self {
        Self { place, folder, next: Cell::new(0) }
    }

    pub(crate) fn commit(&self, actions: &[Value]) {
        self.commit_as(self.next.replace(self.next.get() + 1), actions);
    }

    pub(crate) fn commit_as(&self, version: u64, actions: &[Value]) {
        let lines: Vec<String> = actions.iter().map(|action| action.to_string()).collect();
        let name = format!("{}/_delta_log/{version:020}.json", self.folder);
        self.place.put_bytes(&name, lines.join("\n").as_bytes());
    }

    pub(crate) fn append(&self, files: &[File]) {
        self.place.put_all(files);
        self.commit(&files.iter().map(|(name, ..)| self.add(name)).collect::<Vec<_>>());
    }

    pub(crate) fn add(&self, name: &str) -> Value {
        let size = std::fs::metadata(self.place.path(&format!("{}/{name}", self.folder))).unwrap().len();
        json!({ "add": { "path": name, "partitionValues": {}, "size": size, "modificationTime": 7, "dataChange": true } })
    }

    pub(crate) fn add_with(&self, name: &str, vector: &Value) -> Value {
        let mut add = self.add(name);
        add["add"]["deletionVector"] = vector.clone();
        add
    }

    pub(crate) fn remove(&self, name: &str) -> Value {
        json!({ "remove": { "path": name, "deletionTimestamp": 8, "dataChange": true, "partitionValues": {} } })
    }

    /// Writes deletion vectors to one file. Returns their descriptors for actions.
    pub(crate) fn vectors(&self, vectors: &[&[u16]]) -> Vec<Value> {
        let mut bytes = vec![1_u8];
        let mut said = Vec::new();
        for rows in vectors {
            let vector = vector(rows);
            said.push(json!({ "storageType": "u", "pathOrInlineDv": VECTORS, "offset": bytes.len(),
                "sizeInBytes": vector.len(), "cardinality": rows.len() }));
            bytes.extend((vector.len() as u32).to_be_bytes());
            bytes.extend(&vector);
            bytes.extend(checksum(&vector).to_be_bytes());
        }
        self.place.put_bytes(&format!("{}/{VECTORS_FILE}", self.folder), &bytes);
        said
    }
}

/// Writes a checkpoint of a version and removes the commits before it, like the cleanup of a log.
pub(crate) fn clean(place: &Place, version: u64) {
    checkpoint(&place.path("in"), version);
    forget_commits(&place.path("in"), version);
}

/// Encodes row numbers as a deletion vector: a magic number and a 64-bit bitmap of one container.
fn vector(rows: &[u16]) -> Vec<u8> {
    let mut bytes = 1_681_511_377_u32.to_le_bytes().to_vec();
    bytes.extend(1_u64.to_le_bytes());
    // The upper half of the numbers, and the header of their lower half: no runs, one container.
    [0_u32, 12_346, 1].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    [0, rows.len() as u16 - 1].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.extend(16_u32.to_le_bytes());
    rows.iter().for_each(|row| bytes.extend(row.to_le_bytes()));
    bytes
}

/// CRC-32 as in zlib.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
