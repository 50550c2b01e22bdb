//! Verifies an output: every shard in its logs can be read, every row exists once and belongs to a done slice, and the
//! number of rows matches the commits.

use std::collections::{HashMap, HashSet};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use futures::stream;
use object_store::ObjectStoreExt;
use serde::Serialize;

use crate::corpus::{guarded, guarded_next};
use crate::delta::{Line, LiveFile, Log};
use crate::location::is_unavailable;
use crate::outputs::{levels, open, table};
use crate::run::ledger::{ATTEMPT, Attempt, Ledger, SliceName};
use crate::run::output::finished_slice::SliceRecord;
use crate::run::output::missing::{Lacked, lacked};
use crate::run::output::sums;
use crate::shards::sources;

const NAMED: u64 = 5;

#[derive(Debug, Default, Serialize)]
pub struct Verified {
    pub table_version: u64,
    /// Live shards of the output, and of its rejects.
    pub shards: u64,
    pub shards_of_rejects: u64,
    pub rows: u64,
    /// Valid rows of the rejects.
    pub rejects: u64,
    /// Rows of done slices in neither: filtered by the pipeline, or deleted in the input table. Lost rows are not
    /// included.
    pub filtered: u64,
    /// Rows of the output or the rejects that the commits record but that do not exist.
    pub lost: u64,
    /// Additional copies of rows.
    pub doubled: u64,
    /// Rows that belong to no done slice.
    pub strange: u64,
    /// Input files whose rows were not compared, because their commits were cleaned from the log.
    pub files_not_compared: u64,
    /// A message for each fault; for doubled and strange rows only the first five.
    pub faults: Vec<String>,
}

/// Reads every row of an output and every valid row of its rejects, and checks that every shard exists. If `is_quick`,
/// only the column `source` of the rows is read.
///
/// # Errors
/// If there is no output, or if its logs or the store cannot be read. Problems of shards and rows are faults, not
/// errors.
pub async fn verify(location: &str, is_quick: bool) -> Result<Verified> {
    let output = open(location).await?;
    let log = table(&output)?;
    let mut found = Verified { table_version: log.state.version, ..Verified::default() };
    found.shards = log.state.files.len() as u64;
    found.shards_of_rejects = output.rejects().map_or(0, |rejects| rejects.state.files.len() as u64);
    for log in [output.table(), output.rejects()].into_iter().flatten() {
        found.faults.extend(missing(log).await?);
        found.faults.extend(log.fault());
    }
    let of_others = output.rejects().into_iter().flat_map(|rejects| rejects.state.files.keys());
    let of_others = of_others.filter(|path| !path.starts_with(ATTEMPT));
    found.faults.extend(of_others.map(|path| format!("shard {path} of the rejects was not written by a run of asap")));
    let mut seen = Seen { ledger: &output.ledger, files: HashMap::new(), is_quick, is_whole: true };
    for shard in log.state.files.values() {
        found.rows += seen.take(log, shard, |rows| &mut rows.output, &mut found).await;
    }
    for (log, shard) in output.valid_rejects() {
        found.rejects += seen.take(log, shard, |rows| &mut rows.rejected, &mut found).await;
    }
    seen.compare(&expected(log, &output.ledger).await?, &mut found);
    match sums::compare(&log.url, &log.state).await {
        Err(error) if is_unavailable(&error) => return Err(error),
        // Changes by another program are faults of its rows.
        compared => found.faults.extend(compared.err().map(|error| error.strip_backtrace())),
    }
    Ok(found)
}

/// Messages for the shards of a log that are missing or have another size.
async fn missing(log: &Log) -> Result<Vec<String>> {
    let fault = |Lacked { shard, found }: Lacked| match found {
        Some(bytes) => format!("shard {} has {bytes} bytes, but its log records {}", shard.path, shard.size),
        None => format!("shard {} is missing", shard.path),
    };
    Ok(lacked(log).await?.into_iter().map(fault).collect())
}

struct Seen<'a> {
    ledger: &'a Ledger,
    files: HashMap<String, OfFile>,
    is_quick: bool,
    is_whole: bool,
}

struct OfFile {
    seen: Vec<bool>,
    rows: RowCounts,
}

impl Seen<'_> {
    /// Reads the rows of a shard, counts them in `of`, and returns their number. Read errors are faults.
    async fn take(
        &mut self,
        log: &Log,
        shard: &LiveFile,
        of: fn(&mut RowCounts) -> &mut u64,
        found: &mut Verified,
    ) -> u64 {
        let mut rows = 0;
        let columns: &[&str] = if self.is_quick { &["source"] } else { &[] };
        let read = async {
            if !self.is_quick {
                let bytes = log.store.get(&shard.location()?).await?.bytes().await?;
                guarded(|| levels::check(bytes)).map_err(|panicked| exec_datafusion_err!("{panicked}"))??;
            }
            let mut opening = Box::pin(stream::once(log.rows_of(shard, columns)));
            let mut batches = guarded_next(&mut opening)
                .await?
                .ok_or_else(|| exec_datafusion_err!("the shard returned no reader"))?;
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
                found.faults.push(format!("shard {} has {rows} rows, but its log records {said}", shard.path));
            }
            _ => {}
        }
        rows
    }

    fn take_batch(
        &mut self,
        batch: &RecordBatch,
        shard: &str,
        of: fn(&mut RowCounts) -> &mut u64,
        found: &mut Verified,
    ) -> Result<()> {
        let wrong = || exec_datafusion_err!("its column source must have the fields file and row");
        let (files, rows) = sources(batch).ok_or_else(wrong)?;
        for (file, row) in files.iter().zip(rows.values()) {
            let (file, row) = (file.unwrap_or_default(), *row);
            match self.see(file, row, of) {
                Some(true) => {}
                Some(false) => {
                    found.doubled += 1;
                    if found.doubled <= NAMED {
                        found.faults.push(format!("row {row} of {file} exists twice, again in shard {shard}"));
                    }
                }
                None => {
                    found.strange += 1;
                    if found.strange <= NAMED {
                        found.faults.push(format!("row {row} of {file} in shard {shard} belongs to no done slice"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a row occurs for the first time; None if it belongs to no done slice.
    fn see(&mut self, file: &str, row: i64, of: fn(&mut RowCounts) -> &mut u64) -> Option<bool> {
        let row = u64::try_from(row).ok()?;
        let held = self.ledger.file(file).filter(|held| row < held.rows && held.overlaps(row, row + 1))?;
        if !self.files.contains_key(file) {
            let none = OfFile { seen: vec![false; held.rows as usize], rows: RowCounts::default() };
            self.files.insert(file.to_string(), none);
        }
        let of_file = self.files.get_mut(file)?;
        let is_first = !std::mem::replace(of_file.seen.get_mut(row as usize)?, true);
        *of(&mut of_file.rows) += u64::from(is_first);
        Some(is_first)
    }

    fn compare(&self, expected: &HashMap<String, Recorded>, found: &mut Verified) {
        let mut once = 0;
        let mut differing = Vec::new();
        for (path, _) in self.ledger.files() {
            let there = self.files.get(path).map_or(RowCounts::default(), |of_file| of_file.rows);
            once += there.output + there.rejected;
            match expected.get(path) {
                Some(Recorded { rows, .. }) if *rows != there => differing.push((path, *rows, there)),
                Some(Recorded { read, filtered, .. }) if *read != there.output + there.rejected + filtered => {
                    found.faults.push(format!(
                        "expected kept + rejected + filtered rows of {path} to be the {read} that the commits read, \
                         found {} + {} + {filtered}",
                        there.output, there.rejected
                    ));
                }
                Some(_) => {}
                None => found.files_not_compared += 1,
            }
        }
        differing.sort_unstable_by_key(|(path, ..)| *path);
        for (path, said, there) in &differing {
            found.lost += said.output.saturating_sub(there.output) + said.rejected.saturating_sub(there.rejected);
            // A broken shard is already a fault, which covers its rows.
            let fault = format!(
                "the commits record {} rows of {path} in the output and {} in the rejects, found {} and {}",
                said.output, said.rejected, there.output, there.rejected
            );
            found.faults.extend(self.is_whole.then_some(fault));
        }
        found.filtered = self.ledger.rows.saturating_sub(once + found.lost);
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RowCounts {
    output: u64,
    rejected: u64,
}

/// The rows of a file in its commits.
#[derive(Debug, Default)]
struct Recorded {
    rows: RowCounts,
    read: u64,
    filtered: u64,
}

/// A slice and its attempt: the commit that records them has the counts.
type Done = (SliceName, Attempt);

/// The expected rows of every file of a ledger, according to the commits. A file has no entry if commits of its slices
/// are no longer in the log.
async fn expected(log: &Log, ledger: &Ledger) -> Result<HashMap<String, Recorded>> {
    let mut wanted: HashSet<Done> = ledger.files().flat_map(|(path, _)| ledger.slices(path)).collect();
    // Attempts whose rejects were retried: of their slices only the output rows remain.
    let mut retried: HashSet<Done> = HashSet::new();
    let mut rows: HashMap<String, Recorded> = HashMap::new();
    for version in (0..=log.state.version).rev() {
        if wanted.is_empty() && retried.is_empty() {
            break;
        }
        // A checkpoint replaces the older commits.
        let Some(lines) = log.read(version).await? else { break };
        for record in records(lines, version)? {
            let done: Done = (record.slice.parse()?, record.attempt.parse()?);
            let is_last = wanted.remove(&done);
            if !is_last && !retried.remove(&done) {
                continue;
            }
            let of_file = rows.entry(done.0.path.clone()).or_default();
            of_file.rows.output += record.rows_out;
            of_file.rows.rejected += if is_last { record.rows_rejected } else { 0 };
            // The attempt before has read the retried rows too.
            of_file.read += if record.retried_from.is_some() { 0 } else { record.rows_in };
            of_file.filtered += record.rows_filtered;
            if let Some(before) = record.retried_from {
                retried.insert((done.0, before.parse()?));
            }
        }
    }
    for (slice, _) in wanted.iter().chain(&retried) {
        rows.remove(&slice.path);
    }
    Ok(rows)
}

/// The slices that a commit records, if it is one of a run.
fn records(lines: Vec<Line>, version: u64) -> Result<Vec<SliceRecord>> {
    let slices = lines.into_iter().find_map(|line| Some(line.commit_info?.get_mut("asap")?.get_mut("slices")?.take()));
    let records = slices.map_or(Ok(vec![]), serde_json::from_value);
    records.map_err(|error| exec_datafusion_err!("version {version} of the log cannot be read: {error}"))
}
