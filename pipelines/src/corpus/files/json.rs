//! Published JSON: one object per line or an array of objects, plain or compressed with gzip. Opening a corpus converts it to a Parquet
//! file in the folder of temporary files (`TMPDIR`).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::ReaderBuilder;
use datafusion::arrow::json::reader::infer_json_schema_from_iterator;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use flate2::bufread::MultiGzDecoder;
use futures::StreamExt;
use object_store::{GetResultPayload, ObjectMeta, ObjectStore};
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};
use tokio::io::AsyncWriteExt;

use crate::corpus::files::file::{CorpusFile, Temporary, as_listed};
use crate::corpus::shape::rules::{ANSWERS, CHAINS, QUESTIONS};

const ROW_GROUP_ROWS: usize = 1024;
const BATCH_ROWS: usize = 256;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
const ZSTD_LEVEL: i32 = 1;

pub(crate) fn is_lines(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    plain.ends_with(".jsonl") || plain.ends_with(".ndjson")
}

pub(crate) fn is_json(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    is_lines(&name) || name.strip_suffix(".gz").unwrap_or(&name).ends_with(".json")
}

/// Converts a file to Parquet. A line that is not a JSON object becomes a row of NULLs, which is a reject.
pub(crate) async fn convert(store: &dyn ObjectStore, file: &CorpusFile) -> Result<CorpusFile> {
    let found = store.get_opts(&file.meta.location, as_listed(&file.meta)).await?;
    let parquet = temporary()?;
    let mut fetched = None;
    let path = match found.payload {
        GetResultPayload::File(_, path) => path,
        GetResultPayload::Stream(mut bytes) => {
            let copy = temporary()?;
            let mut writer = tokio::fs::File::create(&copy).await?;
            while let Some(bytes) = bytes.next().await {
                writer.write_all(&bytes?).await?;
            }
            writer.flush().await?;
            fetched.insert(copy).to_path_buf()
        }
    };
    let lines = temporary()?;
    let json = Json { path, name: file.name.clone(), lines: lines.to_path_buf() };
    let target = parquet.to_path_buf();
    let task = SpawnedTask::spawn_blocking(move || json.write_parquet(&target));
    let written = task.join().await.map_err(|error| exec_datafusion_err!("reading {} stopped: {error}", file.name))?;
    let note = written.map_err(|error| match error {
        DataFusionError::Execution(_) => error,
        other => {
            let (folder, why) = (std::env::temp_dir(), other.strip_backtrace());
            exec_datafusion_err!("{} cannot be converted in {} (TMPDIR): {why}", file.name, folder.display())
        }
    })?;
    let meta = ObjectMeta {
        location: object_store::path::Path::from_filesystem_path(&parquet).map_err(object_store::Error::from)?,
        last_modified: file.meta.last_modified,
        size: parquet.metadata()?.len(),
        e_tag: None,
        version: None,
    };
    let temporary = Some(Temporary { _file: Arc::new(parquet), note });
    Ok(CorpusFile { store_url: ObjectStoreUrl::local_filesystem(), meta, temporary, ..file.clone() })
}

fn temporary() -> Result<TempPath> {
    Ok(NamedTempFile::with_prefix("asap-")?.into_temp_path())
}

struct Json {
    path: PathBuf,
    name: String,
    lines: PathBuf,
}

impl Json {
    fn write_parquet(mut self, target: &Path) -> Result<Option<String>> {
        let is_text = |byte: &io::Result<u8>| !byte.as_ref().is_ok_and(u8::is_ascii_whitespace);
        if self.open()?.bytes().find(is_text).transpose()? == Some(b'[') {
            self.write_lines()?;
            self.path = self.lines.clone();
        }
        let (schema, bad) = self.schema()?;
        let schema = Arc::new(schema);
        let failed = |error: ArrowError| exec_datafusion_err!("{} cannot be read: {error}", self.name);
        let reader = ReaderBuilder::new(Arc::clone(&schema)).with_coerce_primitive(true).with_batch_size(BATCH_ROWS);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .build();
        let mut writer = ArrowWriter::try_new(BufWriter::new(File::create(target)?), schema, Some(properties))?;
        let mut decoder = reader.build_decoder().map_err(failed)?;
        for (index, line) in self.open()?.split(b'\n').enumerate() {
            let line = line?;
            let mut rest = if bad.binary_search(&index).is_ok() { b"{}" } else { line.as_slice() };
            while !rest.is_empty() {
                let read = decoder.decode(rest).map_err(failed)?;
                rest = &rest[read..];
                if !rest.is_empty() || decoder.len() == BATCH_ROWS {
                    decoder.flush().map_err(failed)?.map_or(Ok(()), |batch| writer.write(&batch))?;
                }
            }
        }
        decoder.flush().map_err(failed)?.map_or(Ok(()), |batch| writer.write(&batch))?;
        writer.close()?;
        let others = match bad.len() {
            0 | 1 => String::new(),
            2 => " and one other".to_string(),
            several => format!(" and {} others", several - 1),
        };
        Ok(bad.first().map(|first| {
            let verb = if bad.len() == 1 {
                "is not a complete JSON object, so it becomes a reject"
            } else {
                "are not complete JSON objects, so they become rejects"
            };
            format!("line {}{others} of {} {verb}", first + 1, self.name)
        }))
    }

    fn open(&self) -> Result<Box<dyn BufRead>> {
        let mut file = BufReader::new(File::open(&self.path)?);
        const GZIP: [u8; 2] = [0x1f, 0x8b];
        let is_compressed = file.fill_buf()?.starts_with(&GZIP);
        file.rewind()?;
        let mut text: Box<dyn BufRead> = match is_compressed {
            true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
            false => Box::new(file),
        };
        if text.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
            text.consume(BYTE_ORDER_MARK.len());
        }
        Ok(text)
    }

    fn write_lines(&self) -> Result<()> {
        let mut lines = Lines(BufWriter::new(File::create(&self.lines)?));
        let mut array = serde_json::Deserializer::from_reader(self.open()?);
        let done = array.deserialize_seq(&mut lines).and_then(|()| array.end());
        done.map_err(|error| exec_datafusion_err!("{} is not a complete array of JSON objects: {error}", self.name))?;
        Ok(lines.0.flush()?)
    }

    /// The columns of all lines, in alphabetical order, and the indexes of lines that are not objects.
    fn schema(&self) -> Result<(Schema, Vec<usize>)> {
        let (mut good, mut bad, mut first, mut unread) = (0, Vec::new(), None, None);
        let lines = self.lines()?.map_while(|line| line.map_err(|error| unread = Some(error)).ok());
        let objects = lines.filter_map(|(index, object)| match object {
            Ok(mut value) => {
                good += 1;
                widen(&mut value);
                Some(Ok(value))
            }
            Err(why) => {
                bad.push(index);
                first.get_or_insert(why);
                None
            }
        });
        let inferred = infer_json_schema_from_iterator(objects);
        if let Some(error) = unread {
            return Err(error);
        }
        if let Some(first) = first.filter(|_| bad.len() >= good) {
            return exec_err!("{first}");
        }
        match inferred {
            Ok(schema) => Ok((Schema::new(as_text(&plain(schema.fields()))), bad)),
            Err(error) => self.refuse_clash(&error),
        }
    }

    fn refuse_clash<T>(&self, error: &ArrowError) -> Result<T> {
        let lines = || Ok::<_, DataFusionError>(self.lines()?.map_while(Result::ok));
        let objects = || Ok::<_, DataFusionError>(lines()?.filter_map(|(_, object)| object.ok()));
        let mut names = BTreeSet::new();
        for value in objects()? {
            if let Value::Object(fields) = value {
                names.extend(fields.into_iter().map(|(name, _)| name));
            }
        }
        for name in names {
            let alone = objects()?.map(|mut value| {
                let held = value.get_mut(&name).map_or(Value::Null, Value::take);
                Ok(Value::Object([(name.clone(), held)].into_iter().collect()))
            });
            if infer_json_schema_from_iterator(alone).is_err() {
                return exec_err!(
                    "column {name} of {} has values of different types, which a table cannot hold: rewrite it",
                    self.name
                );
            }
        }
        exec_err!("{} cannot be read: {error}", self.name)
    }

    /// The object of every non-empty line, or the reason why it has none, each with its index. A failed read is an error,
    /// and the next read would fail too.
    fn lines(&self) -> Result<impl Iterator<Item = Result<(usize, Result<Value, String>)>>> {
        let is_blank = |line: &io::Result<Vec<u8>>| line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty());
        let lines = self.open()?.split(b'\n').enumerate().filter(move |(_, line)| !is_blank(line));
        Ok(lines.map(|(index, line)| {
            let at = || format!("line {} of {}", index + 1, self.name);
            let line = line.map_err(|error| exec_datafusion_err!("{} cannot be read: {error}", at()))?;
            let expected = "asap reads one object per line, or an array of objects";
            let object = match serde_json::from_slice(&line) {
                Ok(value @ Value::Object(_)) => Ok(value),
                Ok(_) => Err(format!("{} is not a JSON object; {expected}", at())),
                Err(error) => Err(format!("{} is not a complete JSON object ({error}); {expected}", at())),
            };
            Ok((index, object))
        }))
    }
}

struct Lines(BufWriter<File>);

impl<'de> Visitor<'de> for &mut Lines {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        use serde::de::Error;
        while let Some(value) = array.next_element::<Value>()? {
            serde_json::to_writer(&mut self.0, &value).map_err(A::Error::custom)?;
            self.0.write_all(b"\n").map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// Converts integers beyond 64-bit columns to text: as numbers they would be rounded, which breaks ids.
fn widen(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_i64().is_none() && number.is_u64() => *value = number.to_string().into(),
        Value::Array(items) => items.iter_mut().for_each(widen),
        Value::Object(fields) => fields.values_mut().for_each(widen),
        _ => {}
    }
}

/// Sorts fields by name at every depth, and drops empty structs, which Parquet cannot hold.
fn plain(fields: &Fields) -> Fields {
    let mut fields: Vec<FieldRef> = fields
        .iter()
        .filter_map(|field| Some(Arc::new(Field::new(field.name(), plain_type(field.data_type())?, true))))
        .collect();
    fields.sort_by(|a, b| a.name().cmp(b.name()));
    fields.into()
}

/// Reads numbers in columns of questions, chains and answers as the text that was written: 1.50 is not 1.5.
fn as_text(fields: &Fields) -> Fields {
    let is_text = |field: &Field| {
        let names = [QUESTIONS, CHAINS, ANSWERS].concat();
        field.data_type().is_numeric() && names.iter().any(|name| field.name().eq_ignore_ascii_case(name))
    };
    let read = |field: &FieldRef| match is_text(field) {
        true => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        false => Arc::clone(field),
    };
    fields.iter().map(read).collect()
}

fn plain_type(found: &DataType) -> Option<DataType> {
    Some(match found {
        DataType::Struct(fields) => match plain(fields) {
            fields if fields.is_empty() => return None,
            fields => DataType::Struct(fields),
        },
        DataType::List(item) => DataType::List(Arc::new(Field::new_list_field(plain_type(item.data_type())?, true))),
        other => other.clone(),
    })
}
