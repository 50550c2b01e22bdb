//! Whether an output is sound: every shard that its logs name can be read, every row is there once, of a slice that is done, and
//! there are as many rows as the commits say.

use std::collections::HashMap;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use serde::Serialize;

use crate::corpus::{guarded, guarded_next};
use crate::delta::{LiveFile, Log};
use crate::outputs::counted::{Rows, expected};
use crate::outputs::{levels, open, read, rejects_that_count, table, texts};
use crate::run::output::ledger::{ATTEMPT, Ledger};

const LOOKS_AT_ONCE: usize = 16;
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
    /// Rows of done slices that are in neither: the pipeline filtered them, or they lie deleted in the file of a table. Lost
    /// rows are not among them.
    pub filtered: u64,
    /// Rows of the output or the rejects that the commits say, and that are not there.
    pub lost: u64,
    /// Rows that are there more than once, each time but the first.
    pub doubled: u64,
    /// Rows of no slice that is done.
    pub strange: u64,
    /// Files of the input whose rows were not compared with what the commits say: these commits were cleaned from the log.
    pub files_not_compared: u64,
    /// Each fault in words; of doubled and strange rows the first five.
    pub faults: Vec<String>,
}

/// Reads every row of an output and of its rejects that counts, and looks for every shard. Where `is_quick`, of the rows only the
/// column `source` is read.
///
/// # Errors
/// If there is no output, or if its logs or the store cannot be read. What is wrong with shards and rows is no error, but a
/// fault.
pub async fn verify(location: &str, is_quick: bool) -> Result<Verified> {
    let output = open(location).await?;
    let log = table(&output)?;
    let mut found = Verified { table_version: log.state().version, ..Verified::default() };
    for log in [output.table(), output.rejects()].into_iter().flatten() {
        found.shards += log.state().files.len() as u64;
        found.faults.extend(missing(log).await?);
    }
    let of_others = output.rejects().into_iter().flat_map(|rejects| rejects.state().files.keys());
    let of_others = of_others.filter(|path| !path.starts_with(ATTEMPT));
    found.faults.extend(of_others.map(|path| format!("shard {path} of the rejects was not written by a run of asap")));
    let mut seen = Seen { ledger: output.ledger(), files: HashMap::new(), is_quick, is_whole: true };
    for shard in log.state().files.values() {
        found.rows += seen.take(log, shard, |rows| &mut rows.output, &mut found).await;
    }
    for (log, shard) in rejects_that_count(&output)? {
        found.rejects += seen.take(log, shard, |rows| &mut rows.rejected, &mut found).await;
    }
    seen.compare(&expected(log, output.ledger()).await?, &mut found);
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

struct Seen<'a> {
    ledger: &'a Ledger,
    files: HashMap<String, OfFile>,
    is_quick: bool,
    is_whole: bool,
}

struct OfFile {
    seen: Vec<bool>,
    rows: Rows,
}

impl Seen<'_> {
    /// Takes the rows of a shard in, and counts them as `of` says. Returns how many they are. What cannot be read is a fault.
    async fn take(&mut self, log: &Log, shard: &LiveFile, of: fn(&mut Rows) -> &mut u64, found: &mut Verified) -> u64 {
        let mut rows = 0;
        let column = self.is_quick.then_some("source");
        let read = async {
            if !self.is_quick {
                let bytes = log.store().get(&shard.location()?).await?.bytes().await?;
                guarded(|| levels::check(bytes)).map_err(|panicked| exec_datafusion_err!("{panicked}"))??;
            }
            let mut opening = Box::pin(stream::once(read(log, shard, column)));
            let mut batches =
                guarded_next(&mut opening).await?.ok_or_else(|| exec_datafusion_err!("it has no reader"))?;
            while let Some(batch) = guarded_next(&mut batches).await? {
                rows += batch.num_rows() as u64;
                self.take_batch(&batch, &shard.path, of, found)?;
            }
            Ok::<_, DataFusionError>(())
        };
        let read = read.await;
        self.is_whole &= read.is_ok();
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

    fn take_batch(
        &mut self,
        batch: &RecordBatch,
        shard: &str,
        of: fn(&mut Rows) -> &mut u64,
        found: &mut Verified,
    ) -> Result<()> {
        let wrong = || exec_datafusion_err!("its column source is not a file and a row");
        let source = batch.column_by_name("source").and_then(|column| column.as_struct_opt()).ok_or_else(wrong)?;
        let files = texts(source.column_by_name("file").ok_or_else(wrong)?)?;
        let rows = source.column_by_name("row").and_then(|rows| rows.as_primitive_opt::<Int64Type>());
        let rows = rows.ok_or_else(wrong)?;
        for (index, file) in files.as_string::<i32>().iter().enumerate() {
            let (file, row) = (file.unwrap_or_default(), rows.value(index));
            match self.see(file, row, of) {
                Some(true) => {}
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
    fn see(&mut self, file: &str, row: i64, of: fn(&mut Rows) -> &mut u64) -> Option<bool> {
        let row = u64::try_from(row).ok()?;
        let held = self.ledger.file(file).filter(|held| row < held.rows && held.overlaps(row, row + 1))?;
        if !self.files.contains_key(file) {
            let none = OfFile { seen: vec![false; held.rows as usize], rows: Rows::default() };
            self.files.insert(file.to_string(), none);
        }
        let of_file = self.files.get_mut(file)?;
        let is_first = !std::mem::replace(of_file.seen.get_mut(row as usize)?, true);
        *of(&mut of_file.rows) += u64::from(is_first);
        Some(is_first)
    }

    fn compare(&self, expected: &HashMap<String, Rows>, found: &mut Verified) {
        let mut once = 0;
        let mut differing = Vec::new();
        for (path, _) in self.ledger.files() {
            let there = self.files.get(path).map_or(Rows::default(), |of_file| of_file.rows);
            once += there.output + there.rejected;
            match expected.get(path) {
                // What is wrong with a shard is said, and its rows with it.
                Some(said) if *said != there && self.is_whole => differing.push((path, *said, there)),
                Some(_) => {}
                None => found.files_not_compared += 1,
            }
        }
        differing.sort_unstable_by_key(|(path, ..)| *path);
        for (path, said, there) in &differing {
            found.lost += said.output.saturating_sub(there.output) + said.rejected.saturating_sub(there.rejected);
            found.faults.push(format!(
                "the commits say {} rows of {path} in the output and {} in the rejects, found {} and {}",
                said.output, said.rejected, there.output, there.rejected
            ));
        }
        found.filtered = self.ledger.rows.saturating_sub(once + found.lost);
    }
}
