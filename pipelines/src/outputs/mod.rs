//! What an output holds, and how it is kept in order: each command reads the logs, which alone say what counts.
//!
//! | module | holds |
//! |---|---|
//! | [`status`] | what is done of which files |
//! | [`history`] | what each commit did |
//! | [`verify`] | whether every shard can be read, and every row is there once |
//! | [`vacuum`] | what no log names any more, removed |
//! | [`optimize`] | small shards made large ones |
//! | [`export`] | the rows as a folder that any reader of Parquet opens |

mod counted;
pub mod export;
pub mod history;
mod levels;
pub mod optimize;
mod shard_reader;
pub mod status;
pub mod vacuum;
pub mod verify;

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use crate::outputs::shard_reader::ShardReader;

use crate::delta::{LiveFile, Log};
use crate::location;
use crate::run::output::Output;
use crate::run::output::rejects::{Settled, Standing};

/// Opens the output of a run at a location as typed.
///
/// # Errors
/// If there is none, or if its logs cannot be read.
pub async fn open(location: &str) -> Result<Output> {
    crate::delta::stores::register();
    let output = Output::open(location::folder(location)?).await?;
    if output.table().is_none() {
        return exec_err!("{location} holds no output of asap run: give the folder that was its --to");
    }
    Ok(output)
}

fn table(output: &Output) -> Result<&Log> {
    output.table().ok_or_else(|| exec_datafusion_err!("{} holds no table", location::display(output.url())))
}

fn rejects_that_count(output: &Output) -> Result<Vec<(&Log, &LiveFile)>> {
    let settled = Settled::of(table(output)?.state(), output.ledger().generation);
    let Some(log) = output.rejects() else { return Ok(vec![]) };
    let counts = log.state().files.values().filter(|shard| settled.standing(shard) == Standing::Valid);
    Ok(counts.map(|shard| (log, shard)).collect())
}

/// The rows of a shard: all columns, or only one; no more of the object is read than that takes.
async fn read(log: &Log, shard: &LiveFile, column: Option<&str>) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let reader = ShardReader { store: Arc::clone(log.store()), path: shard.location()?, size: shard.size };
    let mut builder = ParquetRecordBatchStreamBuilder::new(reader).await?;
    if let Some(column) = column {
        let index = builder.schema().index_of(column)?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), [index]);
        builder = builder.with_projection(mask);
    }
    Ok(builder.build()?.map_err(DataFusionError::from).boxed())
}

fn texts(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(column, &DataType::Utf8)?)
}

async fn rejects_by_status(output: &Output) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for (log, shard) in rejects_that_count(output)? {
        let mut rows = read(log, shard, Some("status")).await?;
        while let Some(batch) = rows.try_next().await? {
            for status in texts(batch.column(0))?.as_string::<i32>() {
                *found.entry(status.unwrap_or_default().to_string()).or_default() += 1;
            }
        }
    }
    Ok(found)
}

/// A path of a log as the store of its table has it; None if it lies outside of the table's folder.
fn inside(path: &str) -> Option<Path> {
    let path = (!path.contains("://")).then(|| Path::from_url_path(path).ok()).flatten()?;
    let first = path.parts().next()?.as_ref().to_string();
    (first != crate::delta::FOLDER && first != crate::beside::FOLDER).then_some(path)
}
