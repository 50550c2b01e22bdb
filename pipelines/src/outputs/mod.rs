//! Commands that inspect and maintain an output. Each reads the logs, which alone determine the valid rows.

pub mod export;
pub mod history;
mod levels;
pub mod optimize;
pub mod rejects;
pub mod status;
pub mod vacuum;
pub mod verify;
pub mod whole_table;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use crate::corpus::files::file::of_any_version;
use crate::delta::{LiveFile, Log};
use crate::location;
use crate::object_reader::ObjectReader;
use crate::objects::existing;
use crate::run::output::Output;
use crate::run::output::ledger::ATTEMPT;
use crate::run::output::rejects::{Settled, Standing};

/// Opens the output of a run at a location as typed.
pub async fn open(location: &str) -> Result<Output> {
    crate::delta::stores::register();
    let folder = location::folder(location)?;
    // A folder without a log gets this message, not advice for a new output.
    let store = crate::delta::store_of(&folder)?;
    let is_table = store.list(Some(&Path::from(crate::delta::FOLDER))).try_next().await;
    match is_table {
        Ok(None) | Err(object_store::Error::NotFound { .. }) => {}
        _ => {
            let output = Output::open(folder).await?;
            if output.table().is_some() {
                return Ok(output);
            }
        }
    }
    // A run that ended before its first commit leaves answers and shards.
    let left =
        existing(store.list_with_delimiter(None).await)?.map(|listed| listed.common_prefixes).unwrap_or_default();
    let is_of_run = |name: &str| name == crate::asap_folder::FOLDER || name.starts_with(ATTEMPT);
    if left.iter().any(|folder| folder.filename().is_some_and(is_of_run)) {
        return exec_err!(
            "{location} has no commit yet: its run ended before the first one; run the same asap run command again"
        );
    }
    exec_err!("{location} is not an output of asap run: pass the folder that was its --to")
}

fn table(output: &Output) -> Result<&Log> {
    output.table().ok_or_else(|| exec_datafusion_err!("{} has no table", location::display(&output.url)))
}

fn rejects_that_count(output: &Output) -> Result<Vec<(&Log, &LiveFile)>> {
    let settled = Settled::of(&table(output)?.state, output.ledger.generation);
    let Some(log) = output.rejects() else { return Ok(vec![]) };
    let counts = log.state.files.values().filter(|shard| settled.standing(shard) == Standing::Valid);
    Ok(counts.map(|shard| (log, shard)).collect())
}

/// The rows of a shard with some columns, or with all if none is named. Only the needed part of the object is read.
async fn read(log: &Log, shard: &LiveFile, columns: &[&str]) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let (store, object) = (Arc::clone(&log.store), of_any_version(shard.location()?, shard.size));
    let reader = ObjectReader { store, object, prefetch: None, footer: None };
    let mut builder = ParquetRecordBatchStreamBuilder::new(reader).await?;
    if !columns.is_empty() {
        let indices = columns.iter().map(|column| builder.schema().index_of(column));
        let indices = indices.collect::<std::result::Result<Vec<_>, _>>()?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), indices);
        builder = builder.with_projection(mask);
    }
    Ok(builder.build()?.map_err(DataFusionError::from).boxed())
}

fn texts(column: &ArrayRef) -> Result<StringArray> {
    Ok(cast(column, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// The fields `file` and `row` of the column `source`, if it has them.
fn sources(batch: &RecordBatch) -> Option<(StringArray, Int64Array)> {
    let source = batch.column_by_name("source")?.as_struct_opt()?;
    let rows = source.column_by_name("row")?.as_primitive_opt::<Int64Type>()?;
    Some((texts(source.column_by_name("file")?).ok()?, rows.clone()))
}

async fn rejects_by_status(output: &Output) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for (log, shard) in rejects_that_count(output)? {
        let mut rows = read(log, shard, &["status"]).await?;
        while let Some(batch) = rows.try_next().await? {
            for status in &texts(batch.column(0))? {
                *found.entry(status.unwrap_or_default().to_string()).or_default() += 1;
            }
        }
    }
    Ok(found)
}

/// A path of a log as a path in the store of its table; None if it is outside the folder of the table.
fn inside(path: &str) -> Option<Path> {
    let path = (!path.contains("://")).then(|| Path::from_url_path(path).ok()).flatten()?;
    let first = path.parts().next()?.as_ref().to_string();
    (first != crate::delta::FOLDER && first != crate::asap_folder::FOLDER).then_some(path)
}
