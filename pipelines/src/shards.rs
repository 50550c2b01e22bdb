//! Shards: rows written next to a table, invisible until a commit names them.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt32Array};
use datafusion::arrow::compute::{cast, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use delta_kernel::expressions::Scalar;
use delta_kernel::schema::PrimitiveType;
use delta_kernel::table_properties::DataSkippingNumIndexedCols;
use deltalake_core::datafile::writer::{PartitionWriter, PartitionWriterConfig};
use deltalake_core::kernel::Add;
use deltalake_core::kernel::scalars::ScalarExt;
use indexmap::IndexMap;
use object_store::ObjectStore;
use object_store::path::Path;
use sha2::{Digest, Sha256};

/// The default size at which a shard is closed and the next one started.
pub const SHARD_BYTES: NonZeroU64 = NonZeroU64::new(256 << 20).unwrap();
/// Bytes of encoded rows per row group. Memory use is one row group.
const ROW_GROUP_BYTES: usize = 32 << 20;
/// The only column with bounds in the log: they find the rows of an input file again. Bounds of texts as long as chains
/// would make the log as large as the data.
pub(crate) const BOUNDS: &str = "file";

/// The longest name of a partition's folder.
const FOLDER_BYTES: usize = 200;
const HASH_DIGITS: usize = 32;

/// A column of texts. A writer that merged shards may have used another string type.
pub(crate) fn texts(column: &ArrayRef) -> Result<StringArray> {
    Ok(cast(column, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// The fields `file` and `row` of the column `source`, if it has them.
pub(crate) fn sources(batch: &RecordBatch) -> Option<(StringArray, Int64Array)> {
    let source = batch.column_by_name("source")?.as_struct_opt()?;
    let rows = source.column_by_name("row")?.as_primitive_opt::<Int64Type>()?;
    Some((texts(source.column_by_name("file")?).ok()?, rows.clone()))
}

/// Unfinished shards, all in one folder.
pub struct Shards {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    schema: SchemaRef,
    partition_by: Vec<String>,
    shard_bytes: NonZeroU64,
    file_schema: SchemaRef,
    writers: BTreeMap<Vec<Option<String>>, PartitionWriter>,
}

impl Shards {
    /// Starts shards in a folder of a table. The root of `store` is that of the table.
    pub fn begin(
        store: Arc<dyn ObjectStore>,
        folder: Path,
        schema: &SchemaRef,
        partition_by: &[String],
        shard_bytes: NonZeroU64,
    ) -> Result<Self> {
        let is_in_files = |index: &usize| !partition_by.contains(schema.field(*index).name());
        let in_files: Vec<usize> = (0..schema.fields().len()).filter(is_in_files).collect();
        let file_schema = Arc::new(schema.project(&in_files)?);
        let (schema, partition_by) = (Arc::clone(schema), partition_by.to_vec());
        Ok(Self { store, folder, schema, partition_by, shard_bytes, file_schema, writers: BTreeMap::new() })
    }

    /// Adds rows with the columns of the table. They are on the store when [`Shards::finish`] returns.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.partition_by.is_empty() {
            return Ok(self.writer(vec![])?.write(batch).await?);
        }
        let in_files = self.file_schema.fields().iter().map(|field| batch.schema().index_of(field.name()));
        let in_files = in_files.collect::<std::result::Result<Vec<_>, _>>()?;
        for (values, rows) in self.divide(batch)? {
            let part = take_record_batch(&batch.project(&in_files)?, &rows)?;
            self.writer(values)?.write(&part).await?;
        }
        Ok(())
    }

    fn divide(&self, batch: &RecordBatch) -> Result<BTreeMap<Vec<Option<String>>, UInt32Array>> {
        let options = FormatOptions::new();
        let mut columns = Vec::new();
        for name in &self.partition_by {
            let column = batch.column_by_name(name);
            let column =
                column.ok_or_else(|| exec_datafusion_err!("the rows have no column {name} to partition by"))?;
            columns.push((column, ArrayFormatter::try_new(column, &options)?));
        }
        let mut rows: BTreeMap<Vec<Option<String>>, Vec<u32>> = BTreeMap::new();
        for row in 0..batch.num_rows() {
            let value = |(column, format): &(&ArrayRef, ArrayFormatter)| {
                column.is_valid(row).then(|| format.value(row).to_string())
            };
            rows.entry(columns.iter().map(value).collect()).or_default().push(row as u32);
        }
        Ok(rows.into_iter().map(|(values, rows)| (values, UInt32Array::from(rows))).collect())
    }

    fn writer(&mut self, values: Vec<Option<String>>) -> Result<&mut PartitionWriter> {
        if !self.writers.contains_key(&values) {
            let writer = self.open(&values)?;
            self.writers.insert(values.clone(), writer);
        }
        self.writers.get_mut(&values).ok_or_else(|| exec_datafusion_err!("a writer vanished"))
    }

    fn open(&self, values: &[Option<String>]) -> Result<PartitionWriter> {
        let properties =
            writer_properties()?.set_created_by(concat!("asap ", env!("ASAP_VERSION")).to_string()).build();
        let mut folder = self.folder.clone();
        let mut partition: IndexMap<String, Scalar> = IndexMap::new();
        for (name, value) in self.partition_by.iter().zip(values) {
            let kind = match (plain_type(self.schema.field_with_name(name)?.data_type()), value) {
                (Some(kind), Some(value)) => {
                    kind.parse_scalar(value).map_err(|error| exec_datafusion_err!("{error}"))?
                }
                (Some(kind), None) => Scalar::Null(delta_kernel::schema::DataType::Primitive(kind)),
                (None, _) => {
                    return exec_err!(
                        "cannot partition by column {name}: its type is not a plain type (text, boolean, integer or date)"
                    );
                }
            };
            // The format of Delta and Hive. Readers that take values from folder names expect it.
            let value =
                if value.is_some() { kind.serialize_encoded() } else { "__HIVE_DEFAULT_PARTITION__".to_string() };
            let part = short(format!("{name}={value}"));
            folder = Path::parse(format!("{folder}/{part}")).map_err(object_store::Error::from)?;
            partition.insert(name.clone(), kind);
        }
        let config = PartitionWriterConfig::try_new(
            Arc::clone(&self.file_schema),
            partition,
            Some(properties),
            Some(self.shard_bytes),
            None,
            None,
            Some(folder),
        )?;
        let (indexed, bounds) = (DataSkippingNumIndexedCols::NumColumns(0), Some(vec![BOUNDS.to_string()]));
        Ok(PartitionWriter::try_with_config(Arc::clone(&self.store), config, indexed, bounds)?)
    }

    /// Closes all shards and returns the actions for a commit.
    pub async fn finish(self) -> Result<Vec<Add>> {
        let mut adds = Vec::new();
        for (_, writer) in self.writers {
            adds.extend(writer.close().await?);
        }
        Ok(adds)
    }
}

/// The compression and the row groups of the files that asap writes.
pub(crate) fn writer_properties() -> Result<WriterPropertiesBuilder> {
    let builder = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?));
    Ok(builder.set_max_row_group_bytes(Some(ROW_GROUP_BYTES)))
}

/// The name of a partition's folder. Disks refuse names of more than 255 bytes, and stores refuse long paths, so a hash
/// replaces the end of a long one. The log has the value itself.
fn short(mut name: String) -> String {
    if name.len() > FOLDER_BYTES {
        let hash = format!("{:x}", Sha256::digest(&name));
        // An escape such as %2F stays whole.
        let is_cut = |end: usize| name[..end].bytes().rev().take(2).any(|byte| byte == b'%');
        let end = (0..=FOLDER_BYTES - HASH_DIGITS - 1).rev().find(|end| name.is_char_boundary(*end) && !is_cut(*end));
        name.truncate(end.unwrap_or(0));
        name = format!("{name}-{}", &hash[..HASH_DIGITS]);
    }
    name
}

/// The primitive type of a column, which parses the value in a folder name.
fn plain_type(data_type: &DataType) -> Option<PrimitiveType> {
    Some(match data_type {
        DataType::Utf8 => PrimitiveType::String,
        DataType::Boolean => PrimitiveType::Boolean,
        DataType::Int8 => PrimitiveType::Byte,
        DataType::Int16 => PrimitiveType::Short,
        DataType::Int32 => PrimitiveType::Integer,
        DataType::Int64 => PrimitiveType::Long,
        DataType::Date32 => PrimitiveType::Date,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_partition_has_a_short_folder_of_its_own() {
        assert_eq!(short("topic=algebra".to_string()), "topic=algebra");
        let long = |end: &str| short(format!("topic={}{end}", "%2F".repeat(100)));
        let (a, b) = (long("a"), long("b"));
        assert!(a != b && a.len() <= FOLDER_BYTES && a.starts_with("topic=%2F%2F"), "{a}");
        let escapes = a.rsplit_once('-').unwrap().0.strip_prefix("topic=").unwrap();
        assert!(escapes.len().is_multiple_of(3), "{a}");
        assert!(short("ä".repeat(200)).len() <= FOLDER_BYTES);
    }
}
