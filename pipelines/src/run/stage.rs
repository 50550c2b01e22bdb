//! Shards: rows written beside a table, invisible until a commit names them.

use std::num::NonZeroU64;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use delta_kernel::table_properties::DataSkippingNumIndexedCols;
use deltalake_core::datafile::writer::{PartitionWriter, PartitionWriterConfig};
use deltalake_core::kernel::Add;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

/// Bytes at which a shard is closed and the next one begun.
const SHARD_BYTES: NonZeroU64 = NonZeroU64::new(256 << 20).unwrap();
/// Bytes of encoded rows that a row group holds; what is in memory is one row group.
const ROW_GROUP_BYTES: usize = 32 << 20;

/// Shards in the making, all in one folder whose name no other attempt uses.
pub struct Stage {
    store: Arc<dyn ObjectStore>,
    attempt: Path,
    writer: PartitionWriter,
    rows: u64,
}

/// Shards that are complete but that no commit names yet.
pub struct Staged {
    /// What a commit adds.
    pub adds: Vec<Add>,
    /// Rows in all shards.
    pub rows: u64,
    store: Arc<dyn ObjectStore>,
    attempt: Path,
}

impl Stage {
    /// Begins shards in the folder `attempt` of a table whose root is the root of `store`.
    pub fn begin(store: Arc<dyn ObjectStore>, attempt: Path, schema: SchemaRef) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
            .set_created_by(concat!("asap ", env!("CARGO_PKG_VERSION")).to_string())
            .build();
        let config = PartitionWriterConfig::try_new(
            schema,
            Default::default(),
            Some(properties),
            Some(SHARD_BYTES),
            None,
            None,
            Some(attempt.clone()),
        )?;
        // Bounds of texts as long as chains would make the log as large as the data.
        let none = DataSkippingNumIndexedCols::NumColumns(0);
        let writer = PartitionWriter::try_with_config(Arc::clone(&store), config, none, None)?;
        Ok(Self { store, attempt, writer, rows: 0 })
    }

    /// Adds rows; they are on the store when [`Stage::finish`] returns.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        Ok(self.writer.write(batch).await?)
    }

    /// Closes the last shard; on an error every shard of this attempt is removed.
    pub async fn finish(self) -> Result<Staged> {
        let Self { store, attempt, writer, rows } = self;
        match writer.close().await {
            Ok(adds) => Ok(Staged { adds, rows, store, attempt }),
            Err(error) => {
                remove_folder(store.as_ref(), &attempt).await?;
                Err(error.into())
            }
        }
    }

    /// Gives the attempt up and removes what it wrote.
    pub async fn abandon(self) -> Result<()> {
        let aborted = self.writer.abort().await;
        remove_folder(self.store.as_ref(), &self.attempt).await?;
        Ok(aborted?)
    }
}

impl Staged {
    /// Removes the shards, because their commit failed.
    pub async fn abandon(self) -> Result<()> {
        remove_folder(self.store.as_ref(), &self.attempt).await
    }
}

async fn remove_folder(store: &dyn ObjectStore, folder: &Path) -> Result<()> {
    let objects: Vec<_> = store.list(Some(folder)).try_collect().await?;
    for object in objects {
        store.delete(&object.location).await.map_err(DataFusionError::from)?;
    }
    Ok(())
}
