//! Retries rejected rows: reads them from their file again, under their old source.
//!
//! An attempt that retries rows of a slice does the whole slice again together with its rejects: those that fail again,
//! and those that were not retried. So it is settled like every slice, in the commit that names its attempt.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use asap_kernels::front_end::Flag;
use asap_llm::FailureKind;
use asap_udfs::typo;
use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::{Result, config_err, exec_datafusion_err};
use deltalake_core::kernel::Add;
use futures::TryStreamExt;

use super::output::Output;
use crate::delta::LiveFile;
use crate::run::ledger::{Attempt, Before, RetriedSlice, SliceName};
use crate::run::output::outcomes::with_columns;
use crate::run::output::rejects::{self, ShardPath};
use crate::shards::{SHARD_BYTES, Shards, sources};

/// The statuses of asap, which docs/columns.md and docs/pipelines.md explain, except those of calls.
const STATUSES: [&str; 17] = [
    "unverified",
    "multi_turn",
    "no_thoughts",
    "no_question",
    "no_generation",
    "no_tags",
    "empty_chain",
    "no_answer",
    "text_before_chain",
    "tags_in_answer",
    "no_score",
    "no_prompt",
    "template",
    "no_anchor",
    "no_match",
    "emptied",
    "not_pruned",
];

fn statuses<'a>() -> impl Iterator<Item = &'a str> {
    STATUSES.into_iter().chain(FailureKind::statuses()).map(|status| -> &'a str { status })
}

/// Checks that each of `asked` is a status of asap, of the pipeline `sql`, or of the output's rejects.
async fn check(output: &Output, asked: &[String], sql: &str) -> Result<()> {
    let unknown = |status: &&String| !statuses().any(|known| known == *status) && !sql.contains(&format!("'{status}'"));
    if !asked.iter().any(|status| unknown(&status)) {
        return Ok(());
    }
    let held = rejects::by_status(output).await?;
    let Some(status) = asked.iter().filter(unknown).find(|status| !held.contains_key(*status)) else { return Ok(()) };
    let mut known: BTreeSet<&str> = held.keys().map(String::as_str).collect();
    known.extend(statuses());
    let (flag, hint) = (Flag("--retry-rejects"), typo::hint(status, known.iter().copied()));
    config_err!("{flag}: there is no status {status}{hint}; expected {}", Vec::from_iter(known).join(", "))
}

/// The rejected rows of an output with one of these statuses, or all if `statuses` is empty.
///
/// # Errors
/// If there is no such status in asap, in the pipeline `sql` or in the rejects.
pub async fn find(output: &Output, statuses: &[String], sql: &str) -> Result<Vec<RetriedSlice>> {
    check(output, statuses, sql).await?;
    let slices = output.ledger.files().flat_map(|(path, _)| output.ledger.slices(path));
    let key = |slice: &SliceName| (slice.file_key(), slice.start);
    let slices: HashMap<_, (SliceName, Attempt)> = slices.map(|(slice, by)| (key(&slice), (slice, by))).collect();
    let mut found: BTreeMap<(String, u64), Vec<u64>> = BTreeMap::new();
    for (rejects, shard) in output.valid_rejects() {
        if output.missing.shards.contains(&shard.path) {
            continue;
        }
        let Some(path) = ShardPath::parse(&shard.path) else { continue };
        let mut batches = rejects.rows_of(shard, &["source", "status"]).await?;
        while let Some(batch) = batches.try_next().await? {
            let status = batch.column_by_name("status").and_then(|column| column.as_string_opt::<i32>().cloned());
            let status = status.ok_or_else(|| exec_datafusion_err!("the rejects {} have no status", shard.path))?;
            let is_asked = |status: &str| statuses.is_empty() || statuses.iter().any(|asked| asked == status);
            for (row, status) in numbers(&batch)?.iter().zip(status.iter()) {
                if is_asked(status.unwrap_or_default()) {
                    found.entry((path.file.clone(), path.start)).or_default().push(*row);
                }
            }
        }
    }
    let again = found.into_iter().filter_map(|(key, mut rows)| {
        let (slice, before) = slices.get(&key)?.clone();
        rows.sort_unstable();
        Some(RetriedSlice { slice, before, rows: rows.into() })
    });
    Ok(again.collect())
}

/// Copies the rejects of `slice` whose rows are not in `tried` from the attempt `before` into new shards. The new shards
/// belong to the attempt that retries the rows in `tried`.
pub async fn carry(output: &Output, slice: &SliceName, before: Attempt, tried: &[u64]) -> Result<Vec<Add>> {
    let Some(rejects) = output.rejects() else { return Ok(vec![]) };
    let tried: HashSet<u64> = tried.iter().copied().collect();
    let folder = ShardPath::folder(output.attempt, slice, &Before::Done(before));
    let schema = Arc::new(rejects.state.schema()?);
    let mut shards = Shards::begin(Arc::clone(&rejects.store), folder, &schema, &[], SHARD_BYTES)?;
    let is_theirs = |shard: &&LiveFile| ShardPath::parse(&shard.path).is_some_and(|path| path.is_of(slice, before));
    for shard in rejects.state.files.values().filter(is_theirs) {
        let mut batches = rejects.rows_of(shard, &[]).await?;
        while let Some(batch) = batches.try_next().await? {
            let others: BooleanArray = numbers(&batch)?.iter().map(|row| Some(!tried.contains(row))).collect();
            let others = filter_record_batch(&batch, &others)?;
            shards.write(&with_columns(&others, &schema)?).await?;
        }
    }
    shards.finish().await
}

fn numbers(batch: &RecordBatch) -> Result<Vec<u64>> {
    let wrong = || exec_datafusion_err!("rejects have no column source with the row's number");
    let (_, rows) = sources(batch).ok_or_else(wrong)?;
    Ok(rows.values().iter().map(|row| row.unsigned_abs()).collect())
}
