//! Why rows of an output were rejected, with some of them.

use std::collections::BTreeMap;

use datafusion::common::{Result, exec_datafusion_err};
use futures::TryStreamExt;
use serde::Serialize;

use crate::outputs::open;
use crate::shards::{sources, texts};

/// The rejects of one status.
#[derive(Debug, Serialize)]
pub struct RejectsOfStatus {
    pub status: String,
    pub rows: u64,
    /// Some of them, in the order of their shards.
    pub sample: Vec<RejectedRow>,
}

#[derive(Debug, Serialize)]
pub struct RejectedRow {
    /// The input file.
    pub file: String,
    /// The row's place in the file, from 0.
    pub row: i64,
    pub error: String,
}

/// Reads the rejects of an output, by status, with up to `sample` rows of each.
pub async fn rejects(location: &str, sample: usize) -> Result<Vec<RejectsOfStatus>> {
    let output = open(location).await?;
    let mut found: BTreeMap<String, RejectsOfStatus> = BTreeMap::new();
    for (log, shard) in output.valid_rejects() {
        let mut batches = log.rows_of(shard, &["source", "status", "error"]).await?;
        while let Some(batch) = batches.try_next().await? {
            let wrong = || exec_datafusion_err!("shard {} does not have the columns of rejects", shard.path);
            let text = |name: &str| texts(batch.column_by_name(name).ok_or_else(wrong)?);
            let (files, rows) = sources(&batch).ok_or_else(wrong)?;
            let (statuses, errors) = (text("status")?, text("error")?);
            for (index, status) in statuses.iter().enumerate() {
                let status = status.unwrap_or_default();
                let new = || RejectsOfStatus { status: status.to_string(), rows: 0, sample: vec![] };
                let of_status = found.entry(status.to_string()).or_insert_with(new);
                of_status.rows += 1;
                if of_status.sample.len() < sample {
                    let (file, error) = (files.value(index).to_string(), errors.value(index).to_string());
                    of_status.sample.push(RejectedRow { file, row: rows.value(index), error });
                }
            }
        }
    }
    Ok(found.into_values().collect())
}
