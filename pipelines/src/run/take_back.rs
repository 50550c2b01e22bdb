//! Taking the rows of a file back that has changed: they are found by their source, whichever shards hold them by now.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use deltalake_core::kernel::Add;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::ledger::{ATTEMPT, Attempt, FileVersion, Ledger, SliceName};
use super::shards::{Layout, SHARD_BYTES, Shards};
use crate::log::{self, LiveFile, Log, State};

/// A file whose rows go when its new ones come; none by default.
#[derive(Debug, Default)]
pub struct TakeBack {
    path: Option<String>,
    slices: Vec<(SliceName, Attempt)>,
    found: Option<Found>,
}

/// The shards that hold its rows, and those that hold what else was in them.
#[derive(Debug)]
struct Found {
    removed: Vec<LiveFile>,
    rewritten: Vec<Add>,
}

impl TakeBack {
    /// Takes back what a ledger says of a file.
    pub fn new(ledger: &Ledger, path: &str) -> Self {
        Self { path: Some(path.to_string()), slices: ledger.slices(path), found: None }
    }

    /// Whether the output still holds what it takes back.
    pub fn is_due(&self, ledger: &Ledger) -> bool {
        let held = self.path.as_deref().and_then(|path| Some((path, &ledger.file(path)?.version)));
        held.is_some_and(|(path, version)| self.takes(path, version))
    }

    /// Whether it takes back this content of a file.
    pub fn takes(&self, path: &str, version: &FileVersion) -> bool {
        self.path.as_deref() == Some(path) && self.slices.iter().all(|(slice, _)| slice.version == *version)
    }

    /// Looks for the shards that hold rows of the file.
    ///
    /// # Errors
    /// If the store fails, or if the table keeps its rows for ever.
    pub async fn find(&mut self, log: Option<&Log>, attempt: Attempt) -> Result<()> {
        let (Some(path), Some(log)) = (&self.path, log) else { return Ok(()) };
        if self.found.is_some() && !self.is_outdated(log.state()) {
            return Ok(());
        }
        if log.state().metadata.configuration.get("delta.appendOnly").is_some_and(|value| value == "true") {
            return exec_err!("the output takes rows only (delta.appendOnly), so those of {path} cannot be replaced");
        }
        let mut found = Found { removed: vec![], rewritten: vec![] };
        for shard in log.state().files.values().filter(|shard| may_hold(shard, path)) {
            let (rows, of_path) = count(log, shard, path).await?;
            if of_path == 0 {
                continue;
            }
            if of_path < rows {
                found.rewritten.extend(rewrite(log, shard, path, attempt).await?);
            }
            found.removed.push(shard.clone());
        }
        self.found = Some(found);
        Ok(())
    }

    /// Whether another writer has moved the rows since they were found.
    pub fn is_outdated(&self, state: &State) -> bool {
        let removed = self.found.iter().flat_map(|found| &found.removed);
        removed.into_iter().any(|shard| !state.files.contains_key(&shard.path))
    }

    /// The actions of a commit that take the rows back, and say so of their slices.
    pub fn lines(&self, now: i64) -> Vec<String> {
        let Some(Found { removed, rewritten }) = &self.found else { return vec![] };
        let removes = removed.iter().map(|shard| log::remove(shard, now));
        let back = self.slices.iter().map(|(slice, by)| log::transaction(&slice.to_string(), by.taken_back(), now));
        removes.chain(rewritten.iter().map(log::add)).chain(back).collect()
    }
}

fn may_hold(shard: &LiveFile, path: &str) -> bool {
    match shard.bounds("source", "file") {
        Some((least, greatest)) => {
            least.as_str().is_none_or(|least| least <= path)
                && greatest.as_str().is_none_or(|greatest| greatest >= path)
        }
        None => true,
    }
}

async fn open(log: &Log, shard: &LiveFile) -> Result<ParquetRecordBatchReaderBuilder<bytes::Bytes>> {
    let bytes = log.store().get(&shard.location()?).await?.bytes().await?;
    Ok(ParquetRecordBatchReaderBuilder::try_new(bytes)?)
}

/// How many rows a shard has, and how many of them are of a file.
async fn count(log: &Log, shard: &LiveFile, path: &str) -> Result<(u64, u64)> {
    let builder = open(log, shard).await?;
    let column = builder.schema().index_of("source")?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), [column]);
    let mut counts = (0, 0);
    for batch in builder.with_projection(mask).build()? {
        let batch = batch?;
        counts.0 += batch.num_rows() as u64;
        counts.1 += is_of(&batch, path)?.true_count() as u64;
    }
    Ok(counts)
}

/// Which rows are of a file.
fn is_of(batch: &RecordBatch, path: &str) -> Result<BooleanArray> {
    let source = batch.column_by_name("source").and_then(|column| column.as_struct_opt());
    let files = source.and_then(|source| source.column_by_name("file"));
    let files = files.ok_or_else(|| exec_datafusion_err!("a shard has no column source with the file of its rows"))?;
    // Whoever merged shards may have encoded texts otherwise.
    let files = cast(files, &DataType::Utf8)?;
    Ok(files.as_string::<i32>().iter().map(|file| Some(file == Some(path))).collect())
}

/// The rows of a shard that are not of a file, as a shard of their own.
async fn rewrite(log: &Log, shard: &LiveFile, path: &str, attempt: Attempt) -> Result<Vec<Add>> {
    let builder = open(log, shard).await?;
    let layout = Layout { schema: Arc::clone(builder.schema()), partition_by: vec![], shard_bytes: SHARD_BYTES };
    let mut shards = Shards::begin(Arc::clone(log.store()), Path::from(format!("{ATTEMPT}{attempt}")), layout)?;
    for batch in builder.build()? {
        let batch = batch?;
        let others: BooleanArray = is_of(&batch, path)?.iter().map(|is_of| is_of.map(|is_of| !is_of)).collect();
        shards.write(&filter_record_batch(&batch, &others)?).await?;
    }
    let mut adds = shards.finish().await?;
    adds.iter_mut().for_each(|add| add.partition_values = shard.partition_values.clone());
    Ok(adds)
}
