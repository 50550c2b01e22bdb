//! Whether an output is sound: every object that its logs name is there, and every row is there once, of a slice that is
//! done.

use std::collections::HashMap;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{Result, exec_datafusion_err};
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;
use serde::Serialize;

use super::{open, read, rejects_that_count, table, texts};
use crate::log::{LiveFile, Log};
use crate::run::ledger::Ledger;

/// Objects that are looked for at the same time.
const LOOKS_AT_ONCE: usize = 16;
/// Rows of one kind of fault that are named.
const NAMED: u64 = 5;

/// What was looked at, and what is wrong.
#[derive(Debug, Default, Serialize)]
pub struct Verified {
    /// The version of the table.
    pub table_version: u64,
    /// Live shards of the output and of the rejects.
    pub shards: u64,
    /// Rows of the output.
    pub rows: u64,
    /// Rows of the rejects that count.
    pub rejects: u64,
    /// Rows of done slices that are in neither: the pipeline filtered them, or they lie deleted in the file of a table. They
    /// cannot be told from lost ones.
    pub filtered: u64,
    /// Rows that are there more than once, each time but the first.
    pub doubled: u64,
    /// Rows of no slice that is done.
    pub strange: u64,
    /// Each fault in words; of doubled and strange rows the first five.
    pub faults: Vec<String>,
}

/// Reads the column `source` of every row of an output and of its rejects that counts, and looks for every shard.
///
/// # Errors
/// If there is no output, or if its logs or the store cannot be read. What is wrong with shards and rows is no error, but a
/// fault.
pub async fn verify(location: &str) -> Result<Verified> {
    let output = open(location).await?;
    let mut found = Verified { table_version: table(&output)?.state().version, ..Verified::default() };
    for log in [output.table(), output.rejects()].into_iter().flatten() {
        found.shards += log.state().files.len() as u64;
        found.faults.extend(missing(log).await?);
    }
    let mut seen = Seen { ledger: output.ledger(), files: HashMap::new(), once: 0 };
    let log = table(&output)?;
    for shard in log.state().files.values() {
        found.rows += seen.take(log, shard, &mut found).await;
    }
    for (log, shard) in rejects_that_count(&output)? {
        found.rejects += seen.take(log, shard, &mut found).await;
    }
    found.filtered = output.ledger().rows.saturating_sub(seen.once);
    Ok(found)
}

/// The shards of a log that are not there, or not with their size, in words.
async fn missing(log: &Log) -> Result<Vec<String>> {
    let look = async |shard: &LiveFile| {
        let path = &shard.path;
        match log.store().head(&shard.location()?).await {
            Ok(object) if object.size == shard.size => Ok(None),
            Ok(object) => Ok(Some(format!("shard {path} has {} bytes, its log says {}", object.size, shard.size))),
            Err(object_store::Error::NotFound { .. }) => Ok(Some(format!("shard {path} is missing"))),
            Err(error) => Err(error.into()),
        }
    };
    let looked = futures::stream::iter(log.state().files.values()).map(look).buffered(LOOKS_AT_ONCE);
    looked.try_filter_map(async |fault| Ok(fault)).try_collect().await
}

/// Which rows have come.
struct Seen<'a> {
    ledger: &'a Ledger,
    files: HashMap<String, Vec<bool>>,
    /// Rows that came, each counted once.
    once: u64,
}

impl Seen<'_> {
    /// Takes the rows of a shard in; how many they are. What cannot be read is a fault.
    async fn take(&mut self, log: &Log, shard: &LiveFile, found: &mut Verified) -> u64 {
        let mut rows = 0;
        let read = async {
            let mut batches = read(log, shard, Some("source")).await?;
            while let Some(batch) = batches.try_next().await? {
                rows += batch.num_rows() as u64;
                self.take_batch(&batch, &shard.path, found)?;
            }
            Ok::<_, datafusion::common::DataFusionError>(())
        };
        let read = read.await;
        match (read, shard.rows()) {
            (Err(error), _) => {
                let fault = format!("shard {} cannot be read: {}", shard.path, error.strip_backtrace());
                let is_known = found.faults.iter().any(|fault| fault == &format!("shard {} is missing", shard.path));
                found.faults.extend((!is_known).then_some(fault));
            }
            (Ok(()), Some(said)) if said != rows => {
                found.faults.push(format!("shard {} has {rows} rows, its log says {said}", shard.path));
            }
            _ => {}
        }
        rows
    }

    fn take_batch(&mut self, batch: &RecordBatch, shard: &str, found: &mut Verified) -> Result<()> {
        let wrong = || exec_datafusion_err!("its column source is not a file and a row");
        let source = batch.column(0).as_struct_opt().ok_or_else(wrong)?;
        let files = texts(source.column_by_name("file").ok_or_else(wrong)?)?;
        let rows = source.column_by_name("row").and_then(|rows| rows.as_primitive_opt::<Int64Type>());
        let rows = rows.ok_or_else(wrong)?;
        for (index, file) in files.as_string::<i32>().iter().enumerate() {
            let (file, row) = (file.unwrap_or_default(), rows.value(index));
            match self.see(file, row) {
                Some(true) => self.once += 1,
                Some(false) => {
                    found.doubled += 1;
                    if found.doubled <= NAMED {
                        found.faults.push(format!("row {row} of {file} is there twice, once more in shard {shard}"));
                    }
                }
                None => {
                    found.strange += 1;
                    if found.strange <= NAMED {
                        found.faults.push(format!("row {row} of {file} in shard {shard} is of no slice that is done"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a row comes for the first time; None if it is of no slice that is done.
    fn see(&mut self, file: &str, row: i64) -> Option<bool> {
        let row = u64::try_from(row).ok()?;
        let held = self.ledger.file(file).filter(|held| row < held.rows && held.overlaps(row, row + 1))?;
        if !self.files.contains_key(file) {
            self.files.insert(file.to_string(), vec![false; held.rows as usize]);
        }
        let seen = self.files.get_mut(file)?.get_mut(row as usize)?;
        Some(!std::mem::replace(seen, true))
    }
}
