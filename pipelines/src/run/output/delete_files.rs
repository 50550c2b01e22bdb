//! Deletes the rows of changed or missing files. The column `source` finds them in whichever shards have them now.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::{filter_record_batch, not};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use deltalake_core::kernel::Add;
use futures::TryStreamExt;
use object_store::path::Path;

use crate::delta::{self, LiveFile, Log, LogState, live_rows};
use crate::run::ledger::{ATTEMPT, Attempt, Ledger, SliceName};
use crate::run::output::finished_slice::rows_of;
use crate::shards::{SHARD_BYTES, Shards, sources};

/// Files whose rows a commit deletes, possibly together with new rows for them. Empty by default.
#[derive(Debug, Default)]
pub struct Deletion {
    files: BTreeMap<String, Vec<(SliceName, Attempt)>>,
    missing: HashSet<String>,
    found: Option<ChangedShards>,
}

/// The shards with these rows, and new shards with the remaining rows.
#[derive(Debug)]
struct ChangedShards {
    removed: Vec<LiveFile>,
    rewritten: Vec<Add>,
}

impl Deletion {
    /// Deletes the rows of these files in a ledger. Files that it does not have are ignored.
    pub(crate) fn new<'a>(ledger: &Ledger, paths: impl IntoIterator<Item = &'a str>) -> Self {
        let held = paths.into_iter().map(|path| (path.to_string(), ledger.slices(path)));
        Self { files: held.filter(|(_, slices)| !slices.is_empty()).collect(), ..Self::default() }
    }

    /// Treats these shards as missing. All of their rows belong to these files.
    pub(crate) fn without(self, missing: &HashSet<String>) -> Self {
        Self { missing: missing.clone(), ..self }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether the output still has exactly the slices from when this was created.
    pub(crate) fn is_due(&self, ledger: &Ledger) -> bool {
        self.files.keys().all(|path| self.takes(ledger, path))
    }

    pub(crate) fn takes(&self, ledger: &Ledger, path: &str) -> bool {
        self.files.get(path).is_some_and(|slices| *slices == ledger.slices(path))
    }

    pub(crate) async fn find(&mut self, log: Option<&Log>, attempt: Attempt) -> Result<()> {
        let (Some(first), Some(log)) = (self.files.keys().next(), log) else { return Ok(()) };
        if self.found.is_some() && !self.is_outdated(&log.state) {
            return Ok(());
        }
        if log.state.metadata.configuration.get("delta.appendOnly").is_some_and(|value| value == "true") {
            return exec_err!(
                "the output is append-only (delta.appendOnly), so the rows of {first} cannot be replaced"
            );
        }
        let mut found = ChangedShards { removed: vec![], rewritten: vec![] };
        for shard in log.state.files.values() {
            let may_have_rows_of = shard.may_have_rows_of();
            if !self.files.keys().any(|path| may_have_rows_of(path)) {
                continue;
            }
            if self.missing.contains(&shard.path) {
                found.removed.push(shard.clone());
                continue;
            }
            let (rows, of_files) = self.count(log, shard).await?;
            if of_files == 0 {
                continue;
            }
            if of_files < rows {
                found.rewritten.extend(self.rewrite(log, shard, attempt).await?);
            }
            found.removed.push(shard.clone());
        }
        self.found = Some(found);
        Ok(())
    }

    pub(crate) fn is_outdated(&self, state: &LogState) -> bool {
        let removed = self.found.iter().flat_map(|found| &found.removed);
        removed.into_iter().any(|shard| !state.files.contains_key(&shard.path))
    }

    /// The actions of a commit that delete the rows and mark their slices as deleted.
    pub fn lines(&self) -> Vec<String> {
        let Some(ChangedShards { removed, rewritten }) = &self.found else { return vec![] };
        let removes = removed.iter().map(delta::remove);
        let slices = self.files.values().flatten();
        let back = slices.map(|(slice, by)| delta::transaction(&slice.to_string(), by.deleted()));
        removes.chain(rewritten.iter().map(delta::add)).chain(back).collect()
    }

    /// The rows of the removed shards (None if the log does not have them), and those that are written again.
    pub(crate) fn rows(&self) -> (Option<u64>, u64) {
        let Some(ChangedShards { removed, rewritten }) = &self.found else { return (Some(0), 0) };
        (live_rows(removed.iter()), rows_of(rewritten))
    }

    /// The number of rows of a shard, and how many of them belong to the files.
    async fn count(&self, log: &Log, shard: &LiveFile) -> Result<(u64, u64)> {
        let mut batches = log.rows_of(shard, &["source"]).await?;
        let mut counts = (0, 0);
        while let Some(batch) = batches.try_next().await? {
            counts.0 += batch.num_rows() as u64;
            counts.1 += self.are_of(&batch)?.true_count() as u64;
        }
        Ok(counts)
    }

    fn are_of(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let wrong = || exec_datafusion_err!("a shard has no column source with the fields file and row");
        let (files, _) = sources(batch).ok_or_else(wrong)?;
        let is_meant = |file: Option<&str>| Some(file.is_some_and(|file| self.files.contains_key(file)));
        Ok(files.iter().map(is_meant).collect())
    }

    /// Writes the rows of a shard that do not belong to the files as new shards.
    async fn rewrite(&self, log: &Log, shard: &LiveFile, attempt: Attempt) -> Result<Vec<Add>> {
        let mut batches = log.rows_of(shard, &[]).await?;
        let folder = Path::from(format!("{ATTEMPT}{attempt}"));
        let mut shards = Shards::begin(Arc::clone(&log.store), folder, batches.schema(), &[], SHARD_BYTES)?;
        while let Some(batch) = batches.try_next().await? {
            shards.write(&filter_record_batch(&batch, &not(&self.are_of(&batch)?)?)?).await?;
        }
        let mut adds = shards.finish().await?;
        adds.iter_mut().for_each(|add| add.partition_values = shard.partition_values.clone());
        Ok(adds)
    }
}
