//! Published JSON: one object per line or an array of objects, plain or compressed with gzip. Opening a corpus converts it to a Parquet
//! file in the folder of temporary files (`TMPDIR`).

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asap_udfs::json::Scanner;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::ReaderBuilder;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use flate2::bufread::MultiGzDecoder;
use futures::StreamExt;
use object_store::{GetResultPayload, ObjectMeta, ObjectStore};
use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};
use tokio::io::AsyncWriteExt;

use crate::corpus::files::file::{CorpusFile, MAGIC, Temporary};
use crate::corpus::files::foreign::refuse_start;
use crate::corpus::files::json_kinds::{Kind, MAX_KEYS, has_key_twice, without_nan};
use crate::corpus::files::json_lines::{Lines, MAX_LINE, check_length, values_of_columns};
use crate::corpus::rules::{ANSWERS, CHAINS, COMPLETE, CONVERSATIONS, FLAGS, QUESTIONS, ROW_FLAGS, RULES, SYSTEMS};
use crate::corpus::shape;
use crate::object_reader::as_listed;

const ROW_GROUP_ROWS: usize = 1024;
const BATCH_ROWS: usize = 256;
/// A batch holds no more text than this and a row: its offsets have 32 bits.
const BATCH_BYTES: usize = 256 << 20;
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
    let notes = written.map_err(|error| match error {
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
    let temporary = Some(Temporary { _file: Arc::new(parquet), notes });
    Ok(CorpusFile { store_url: ObjectStoreUrl::local_filesystem(), meta, temporary, ..file.clone() })
}

fn temporary() -> Result<TempPath> {
    let file = NamedTempFile::with_prefix("asap-").map_err(|error| {
        let folder = std::env::temp_dir();
        exec_datafusion_err!(
            "cannot write to {}, the folder for temporary files ({error}): set TMPDIR to a folder that you can write to",
            folder.display()
        )
    })?;
    Ok(file.into_temp_path())
}

struct Json {
    path: PathBuf,
    name: String,
    lines: PathBuf,
}

/// What the lines of a file hold. Lines are named by their indexes.
#[derive(Default)]
struct Survey {
    kinds: Kind,
    bad: Vec<usize>,
    nan: Vec<usize>,
    twice: Vec<usize>,
    notes: Vec<String>,
}

impl Json {
    fn write_parquet(mut self, target: &Path) -> Result<Vec<String>> {
        self.refuse_other()?;
        let is_text = |byte: &io::Result<u8>| !byte.as_ref().is_ok_and(u8::is_ascii_whitespace);
        if self.open()?.bytes().find(is_text).transpose()? == Some(b'[') && self.write_lines()? {
            self.path = self.lines.clone();
        }
        let survey = self.survey()?;
        let schema = Arc::new(Schema::new(as_text(&survey.kinds.columns())));
        let failed = |error: ArrowError| exec_datafusion_err!("{} cannot be read: {error}", self.name);
        let reader = ReaderBuilder::new(Arc::clone(&schema)).with_coerce_primitive(true).with_batch_size(BATCH_ROWS);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .build();
        let mut writer = ArrowWriter::try_new(BufWriter::new(File::create(target)?), schema, Some(properties))?;
        let mut decoder = reader.build_decoder().map_err(failed)?;
        let (is_mixed, mut bytes) = (survey.kinds.is_mixed(), 0);
        for (index, line) in self.split()?.enumerate() {
            let mut line = line?;
            if survey.bad.binary_search(&index).is_ok() {
                line = b"{}".to_vec();
            }
            if survey.nan.binary_search(&index).is_ok() {
                line = without_nan(&line).unwrap_or(line);
            }
            if is_mixed {
                let failed = |error| exec_datafusion_err!("line {} of {}: {error}", index + 1, self.name);
                line = survey.kinds.fit_line(&line).map_err(failed)?;
            }
            let mut rest = line.as_slice();
            bytes += line.len();
            while !rest.is_empty() {
                let read = decoder.decode(rest).map_err(failed)?;
                rest = &rest[read..];
                if !rest.is_empty() || decoder.len() == BATCH_ROWS || bytes > BATCH_BYTES {
                    bytes = rest.len();
                    decoder.flush().map_err(failed)?.map_or(Ok(()), |batch| writer.write(&batch))?;
                }
            }
        }
        decoder.flush().map_err(failed)?.map_or(Ok(()), |batch| writer.write(&batch))?;
        writer.close()?;
        Ok(self.notes(survey))
    }

    /// Refuses a file that is something else than its name says.
    fn refuse_other(&self) -> Result<()> {
        let mut text = self.open()?;
        let start = text.fill_buf()?;
        match start.starts_with(MAGIC) {
            true => exec_err!("{} is Parquet, not JSON: give it the ending .parquet", self.name),
            false => refuse_start(start, &self.name),
        }
    }

    fn notes(&self, survey: Survey) -> Vec<String> {
        let lines = [
            (survey.bad, "no complete JSON object, so the line becomes a reject"),
            (survey.nan, "NaN or Infinity, or a number too large for 64 bits, is read as NULL"),
            (survey.twice, "an object holds a key twice, and its last value counts"),
        ];
        let of_lines = lines.into_iter().filter_map(|(lines, what)| {
            let first = lines.first()? + 1;
            let others = match lines.len() {
                1 => String::new(),
                2 => " and one other".to_string(),
                several => format!(" and {} others", several - 1),
            };
            Some(format!("line {first}{others} of {}: {what}", self.name))
        });
        of_lines.chain(survey.notes).collect()
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

    /// The lines of the file. Joined files have a byte order mark within.
    fn split(&self) -> Result<impl Iterator<Item = io::Result<Vec<u8>>>> {
        let bare = |line: Vec<u8>| line.strip_prefix(BYTE_ORDER_MARK).map(<[u8]>::to_vec).unwrap_or(line);
        Ok(Lines::new(self.open()?, MAX_LINE).map(move |line| line.map(bare)))
    }

    /// Writes each item of an array as one line. An item that is not JSON costs no other item. Returns false if the array
    /// is only the first of several lines.
    fn write_lines(&self) -> Result<bool> {
        let failed = |error: io::Error| exec_datafusion_err!("{} cannot be read: {error}", self.name);
        let mut lines = BufWriter::new(File::create(&self.lines)?);
        let (mut scanner, mut item, mut has_ended, mut is_line) = (Scanner::default(), Vec::new(), false, true);
        let mut text = self.open()?;
        loop {
            let bytes = text.fill_buf().map_err(failed)?;
            let read = bytes.len();
            for byte in bytes {
                is_line &= has_ended || scanner.depth == 0 || *byte != b'\n';
                if has_ended && !byte.is_ascii_whitespace() {
                    if is_line {
                        return Ok(false);
                    }
                    return exec_err!("{} is not a complete array of JSON objects: text follows it", self.name);
                }
                if !scanner.is_border(*byte) {
                    // Within a text, a line break is wrong, and so is this.
                    item.push(if *byte == b'\n' { b'\r' } else { *byte });
                    continue;
                }
                if !item.trim_ascii().is_empty() {
                    item.push(b'\n');
                    lines.write_all(&item)?;
                }
                item.clear();
                has_ended = scanner.depth == 0;
            }
            if read == 0 {
                break;
            }
            text.consume(read);
            check_length(item.len(), MAX_LINE).map_err(failed)?;
        }
        if !has_ended {
            return exec_err!("{} is not a complete array of JSON objects: its end is missing", self.name);
        }
        Ok(lines.flush().map(|()| true)?)
    }

    fn survey(&self) -> Result<Survey> {
        let (mut survey, mut good, mut first) = (Survey::default(), 0, None);
        let (mut keys, mut values) = (0, None);
        for line in self.lines()? {
            let (index, object) = line?;
            match object {
                Ok(Object { value, has_nan, is_twice }) => {
                    good += 1;
                    values = if good == 1 { values_of_columns(&value) } else { None };
                    keys += survey.kinds.add(&value, is_known);
                    if keys > MAX_KEYS {
                        survey.kinds.limit(MAX_KEYS, is_known);
                        keys = survey.kinds.keys();
                    }
                    survey.nan.extend(has_nan.then_some(index));
                    survey.twice.extend(is_twice.then_some(index));
                }
                Err(why) => {
                    survey.bad.push(index);
                    first.get_or_insert(why);
                }
            }
        }
        if let Some(first) = first.filter(|_| good == 0) {
            return exec_err!("{first}");
        }
        if let Some(values) = values {
            return exec_err!(
                "{0} is one object with a list of {values} values for each column, not one object per row; convert it first: \
                 python -c \"import pandas; pandas.read_json('{0}').to_json('rows.jsonl', orient='records', lines=True)\"",
                self.name
            );
        }
        self.settle(&mut survey);
        Ok(survey)
    }

    /// Decides what columns of several types become. Notes what became of keys without columns.
    fn settle(&self, survey: &mut Survey) {
        if let Some(others) = survey.kinds.others() {
            survey.notes.push(format!(
                "{} has more than {MAX_KEYS} keys: those of the fewest rows are in the column {others}, as JSON text",
                self.name
            ));
        }
        for (name, _) in survey.kinds.fields.iter().filter(|(_, kind)| kind.has_map()) {
            let what = "has objects with too many keys for structs, which are kept as JSON text";
            survey.notes.push(format!("column {name} of {} {what}", self.name));
        }
        let mut likely = survey.kinds.clone();
        let mixed: Vec<String> =
            likely.fields.iter().filter(|(_, kind)| kind.is_mixed()).map(|(name, _)| name.clone()).collect();
        if mixed.is_empty() {
            return;
        }
        // Columns that hold a list in every layout.
        let lists = CONVERSATIONS.iter().chain(&["generations"]);
        let is_list = |name: &String| lists.clone().any(|list| list.eq_ignore_ascii_case(name));
        mixed.iter().for_each(|name| {
            likely.fields.entry(name.clone()).and_modify(|kind| kind.keep_most(is_list(name)));
        });
        let shapes = shape::by_names(&Schema::new(as_text(&likely.columns())), &self.name).unwrap_or_default();
        let read = shapes.first().map(|shape| shape.mapping());
        let others: Vec<&str> = shapes.iter().take(1).flat_map(|shape| shape.paths()).map(|path| path.name()).collect();
        for name in mixed {
            let is_read = others.contains(&name.as_str())
                || read.as_ref().is_some_and(|read| read.names().contains(&Some(&name)));
            let is_flag = [ROW_FLAGS, FLAGS].concat().iter().any(|flag| flag.eq_ignore_ascii_case(&name));
            let Some(kind) = survey.kinds.fields.get_mut(&name) else { continue };
            let was_json = kind.has_json();
            if is_read || is_flag {
                kind.keep_most(is_list(&name));
            }
            let becomes = match kind.has_json() {
                true => "they are kept as JSON text",
                false => "those of the less frequent type are NULL, so a row that needs them is a reject",
            };
            if was_json {
                survey.notes.push(format!("column {name} of {} has values of different types: {becomes}", self.name));
            }
        }
    }

    /// The object of every non-empty line, or the reason why it has none, each with its index. A failed read is an error,
    /// and the next read would fail too.
    fn lines(&self) -> Result<impl Iterator<Item = Result<(usize, Result<Object, String>)>>> {
        let is_blank = |line: &io::Result<Vec<u8>>| line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty());
        let lines = self.split()?.enumerate().filter(move |(_, line)| !is_blank(line));
        Ok(lines.map(|(index, line)| {
            let at = || format!("line {} of {}", index + 1, self.name);
            let line = line.map_err(|error| exec_datafusion_err!("{} cannot be read: {error}", at()))?;
            let expected = "asap reads one object per line, or an array of objects";
            let parsed = serde_json::from_slice(&line).map(|value| (value, false));
            let parsed = parsed.or_else(|error| match without_nan(&line) {
                Some(clean) => Ok((serde_json::from_slice(&clean)?, true)),
                None => Err(error),
            });
            let object = match parsed {
                Ok((value @ Value::Object(_), has_nan)) => {
                    let is_twice = has_key_twice(&line, &value);
                    Ok(Object { value, has_nan, is_twice })
                }
                Ok(_) => Err(format!("{} is not a JSON object; {expected}", at())),
                Err(error) => Err(format!("{} is not a complete JSON object ({error}); {expected}", at())),
            };
            Ok((index, object))
        }))
    }
}

struct Object {
    value: Value,
    has_nan: bool,
    is_twice: bool,
}

/// Whether a column with this name may be read, and so is never left out.
fn is_known(name: &str) -> bool {
    let read = [QUESTIONS, CHAINS, ANSWERS, CONVERSATIONS, FLAGS, ROW_FLAGS, SYSTEMS];
    let of_rules = RULES.iter().flat_map(|rule| [rule.question, rule.cot, rule.answer]);
    let mut names = read.into_iter().chain(of_rules).chain([&["id", "uuid", COMPLETE] as &[&str]]).flatten();
    names.any(|known| known.eq_ignore_ascii_case(name))
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
