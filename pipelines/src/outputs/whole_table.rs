//! Tables that are small enough to be written and read as a whole, such as the responses of an evaluation.

use std::collections::HashMap;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{Result, exec_err};
use object_store::path::Path;
use serde_json::json;
use url::Url;

use crate::delta::{Log, add, check_output, commit, remove, store_of, stores};
use crate::location;
use crate::run::output::shards::{Layout, SHARD_BYTES, Shards};

/// A table at one version.
#[derive(Debug, Default)]
pub struct WholeTable {
    pub properties: HashMap<String, String>,
    pub batches: Vec<RecordBatch>,
}

/// Checks that a table can be written at `url`, before work is done for it.
///
/// # Errors
/// If the store refuses.
pub async fn check_writable(url: &Url) -> Result<()> {
    stores::register();
    check_output(store_of(url)?.as_ref(), &location::display(url)).await
}

/// Reads all rows of the Delta table at `url`; None if there is no table.
///
/// # Errors
/// If the store fails, or the table needs features that asap does not read.
pub async fn read(url: &Url) -> Result<Option<WholeTable>> {
    stores::register();
    let Some(log) = Log::open(url).await? else { return Ok(None) };
    log.state.check_readable(url)?;
    let mut batches = Vec::new();
    for file in log.state.files.values() {
        if file.deletion_vector.is_some() {
            return exec_err!("{} has deleted rows, which are not supported here", location::display(url));
        }
        for batch in log.rows_of(file).await?.build()? {
            batches.push(batch?);
        }
    }
    Ok(Some(WholeTable { properties: log.state.metadata.configuration, batches }))
}

/// Replaces all rows of the Delta table at `url` by `batch` in one commit. Creates the table with `properties` if there
/// is none. Time travel still shows the earlier rows.
///
/// # Errors
/// If the store fails, or the table has other columns.
pub async fn replace(url: &Url, batch: &RecordBatch, properties: HashMap<String, Option<String>>) -> Result<()> {
    let schema = batch.schema();
    let mut log = match Log::open(url).await? {
        Some(log) => log,
        None => Log::create(url, schema.clone(), &[], properties).await?,
    };
    if log.state.schema()?.fields() != schema.fields() {
        return exec_err!("the table {} has other columns: choose another folder", location::display(url));
    }
    let layout = Layout { schema, partition_by: vec![], shard_bytes: SHARD_BYTES };
    let mut shards = Shards::begin(store_of(url)?, Path::default(), layout)?;
    shards.write(batch).await?;
    let added = shards.finish().await?;
    let prepare = |state: &crate::delta::LogState| {
        let removed = state.files.values().map(remove);
        Ok(commit("WRITE", "Overwrite", json!({}), removed.chain(added.iter().map(add)).collect()))
    };
    log.commit(prepare).await?;
    Ok(())
}
