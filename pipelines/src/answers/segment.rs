//! A segment: answers that were stored together, as one Parquet file that is written once.
//!
//! | column | type | holds |
//! |---|---|---|
//! | `key` | FixedSizeBinary(32) | the SHA-256 of the whole request |
//! | `time` | Timestamp(ms, UTC) | when the answer came |
//! | `tokens_in`, `tokens_out` | UInt64 | the paid tokens |
//! | `status` | Utf8 | `ok`, or why there is no answer |
//! | `answer` | Utf8 | the answer, or the message of the failure |
//! | `endpoint_defaults` | Utf8 | names of sampling parameters that the endpoint chose; NULL if it chose none |
//! | `sha256` | FixedSizeBinary(32) | of the other fields: Parquet does not notice a changed byte |
//!
//! A row group has at most [`GROUP_ANSWERS`] rows, so an answer is read without the rest of a large file.

use std::ops::Range;
use std::sync::Arc;

use asap_llm::FailureKind;
use asap_llm::chat::{Answer, CallError, Defaults, Outcome};
use asap_llm::request::RequestKey;
use datafusion::arrow::array::{
    Array, AsArray, FixedSizeBinaryArray, RecordBatch, StringArray, TimestampMillisecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{TimestampMillisecondType, UInt64Type};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderMetadata;
use datafusion::parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder};
use datafusion::parquet::arrow::{ArrowWriter, ProjectionMask};
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::properties::WriterProperties;
use futures::TryStreamExt;
use sha2::{Digest, Sha256};

/// The maximum number of answers in a group that is stored together, and in a row group.
pub(crate) const GROUP_ANSWERS: usize = 64;
const OK: &str = "ok";
const INDEXED: [&str; 2] = ["key", "time"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub key: RequestKey,
    pub time: i64,
    /// The answer, or the failure that was paid for.
    pub outcome: Outcome,
}

/// The key and time of an answer, readable without the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub key: RequestKey,
    pub time: i64,
}

impl Record {
    pub(crate) fn entry(&self) -> Entry {
        Entry { key: self.key, time: self.time }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.fields().3.len()
    }

    fn fields(&self) -> (u64, u64, &'static str, &str) {
        match &self.outcome {
            Ok(answer) => (answer.tokens_in, answer.tokens_out, OK, &answer.text),
            Err(error) => (error.tokens_in, error.tokens_out, error.kind.name(), &error.message),
        }
    }

    fn defaults(&self) -> Option<String> {
        let names: Vec<_> = self.outcome.as_ref().ok()?.defaults.names().collect();
        (!names.is_empty()).then(|| names.join(" "))
    }

    fn sha256(&self) -> RequestKey {
        let (tokens_in, tokens_out, status, answer) = self.fields();
        let mut hash = Sha256::new();
        hash.update(self.key);
        [self.time as u64, tokens_in, tokens_out, status.len() as u64]
            .iter()
            .for_each(|n| hash.update(n.to_le_bytes()));
        hash.update(status);
        hash.update(answer);
        // Without them, answers of earlier versions keep their hashes.
        hash.update(self.defaults().unwrap_or_default());
        hash.finalize().into()
    }
}

/// Encodes records as a segment. Fails for an answer of 2 GiB or more.
pub fn encode(records: &[Record]) -> Result<Vec<u8>, ParquetError> {
    let batch = batch(records)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(GROUP_ANSWERS))
        .build();
    let mut segment = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut segment, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(segment)
}

fn batch(records: &[Record]) -> Result<RecordBatch, ParquetError> {
    let hashes = |each: fn(&Record) -> RequestKey| FixedSizeBinaryArray::try_from_iter(records.iter().map(each));
    let fields: Vec<_> = records.iter().map(Record::fields).collect();
    let times =
        TimestampMillisecondArray::from_iter_values(records.iter().map(|record| record.time)).with_timezone("UTC");
    let columns: [(&str, Arc<dyn Array>); 8] = [
        ("key", Arc::new(hashes(|record| record.key)?)),
        ("time", Arc::new(times)),
        ("tokens_in", Arc::new(UInt64Array::from_iter_values(fields.iter().map(|field| field.0)))),
        ("tokens_out", Arc::new(UInt64Array::from_iter_values(fields.iter().map(|field| field.1)))),
        ("status", Arc::new(StringArray::from_iter_values(fields.iter().map(|field| field.2)))),
        ("answer", Arc::new(StringArray::from_iter_values(fields.iter().map(|field| field.3)))),
        ("endpoint_defaults", Arc::new(StringArray::from_iter(records.iter().map(Record::defaults)))),
        ("sha256", Arc::new(hashes(Record::sha256)?)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// The entries of a segment, without the texts of the answers.
pub async fn entries(
    reader: impl AsyncFileReader + Unpin + 'static,
) -> Result<(ArrowReaderMetadata, Vec<Entry>), ParquetError> {
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await?;
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(builder.metadata()), Default::default())?;
    let indexed = ProjectionMask::columns(builder.parquet_schema(), INDEXED);
    let batches: Vec<_> = builder.with_projection(indexed).build()?.try_collect().await?;
    let mut entries = Vec::new();
    for batch in &batches {
        let (keys, times) = (column(batch, "key")?.as_fixed_size_binary_opt(), column(batch, "time")?);
        let (keys, times) = keys.zip(times.as_primitive_opt::<TimestampMillisecondType>()).ok_or_else(not_ours)?;
        for (key, time) in keys.iter().zip(times) {
            let (key, time) = key.zip(time).ok_or_else(not_ours)?;
            entries.push(Entry { key: key.try_into().map_err(|_| not_ours())?, time });
        }
    }
    Ok((metadata, entries))
}

/// Reads the answers in `rows` of a segment. An answer is `None` if its fields do not match its `sha256`, or if its status
/// is unknown.
pub async fn records(
    reader: impl AsyncFileReader + Unpin + 'static,
    metadata: ArrowReaderMetadata,
    rows: Range<usize>,
) -> Result<Vec<Option<Record>>, ParquetError> {
    let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata);
    let batches = builder.with_offset(rows.start).with_limit(rows.len()).build()?.try_collect::<Vec<_>>().await?;
    let mut records = Vec::with_capacity(rows.len());
    for batch in &batches {
        records.extend(read(batch)?);
    }
    Ok(records)
}

fn read(batch: &RecordBatch) -> Result<Vec<Option<Record>>, ParquetError> {
    let hashes = |name| column(batch, name).and_then(|found| found.as_fixed_size_binary_opt().ok_or_else(not_ours));
    let numbers =
        |name| column(batch, name).and_then(|found| found.as_primitive_opt::<UInt64Type>().ok_or_else(not_ours));
    let texts = |name| column(batch, name).and_then(|found| found.as_string_opt::<i32>().ok_or_else(not_ours));
    let (keys, sha256) = (hashes("key")?, hashes("sha256")?);
    let times = column(batch, "time")?.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(not_ours)?;
    let (tokens_in, tokens_out) = (numbers("tokens_in")?, numbers("tokens_out")?);
    let (statuses, answers) = (texts("status")?, texts("answer")?);
    // Earlier versions wrote no such column.
    let defaults = texts("endpoint_defaults").ok();
    let record = |row: usize| {
        let (text, tokens_in, tokens_out) =
            (answers.value(row).to_string(), tokens_in.value(row), tokens_out.value(row));
        let outcome = match statuses.value(row) {
            OK => {
                let names = defaults.filter(|names| names.is_valid(row)).map_or("", |names| names.value(row));
                Ok(Answer { text, tokens_in, tokens_out, defaults: Defaults::named(names) })
            }
            status => {
                let kind = FailureKind::named(status)?;
                Err(CallError { tokens_in, tokens_out, ..CallError::new(kind, text) })
            }
        };
        let record = Record { key: keys.value(row).try_into().ok()?, time: times.value(row), outcome };
        (record.sha256() == *sha256.value(row)).then_some(record)
    };
    Ok((0..batch.num_rows()).map(record).collect())
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a Arc<dyn Array>, ParquetError> {
    batch.column_by_name(name).ok_or_else(not_ours)
}

fn not_ours() -> ParquetError {
    ParquetError::General("it is not a file of answers".to_string())
}
