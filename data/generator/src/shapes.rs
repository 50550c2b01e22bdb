//! The sample as files in two published shapes, and back.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanBuilder, ListArray, ListBuilder, RecordBatch, StringArray, StringBuilder, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::problems::Family;
use crate::rows::{Generation, SampleRow, rows};
use crate::trace::{Label, Step};
use crate::voice::Voice;

/// The file of programming problems, shaped like open-r1/codeforces-cots.
const PROGRAMS: &str = "codeforces-cots.parquet";
/// The file of computed problems, shaped like open-r1/OpenR1-Math-220k.
const COMPUTED: &str = "openr1-math.parquet";

/// Why a sample cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The folder to write to holds something.
    #[error("{} is not empty; name a new folder, or remove what is in it", .0.display())]
    NotEmpty(PathBuf),
    /// The folder to read from holds no file of a sample.
    #[error("{} holds neither {} nor {}; make them by asap sample", .0.display(), PROGRAMS, COMPUTED)]
    NoSample(PathBuf),
    /// The folder to write to cannot be made or looked into.
    #[error("cannot write to {}: {}", .0.display(), .1)]
    Folder(PathBuf, std::io::Error),
    /// A file cannot be written.
    #[error("cannot write {}: {}", .0.display(), .1)]
    Write(PathBuf, ParquetError),
    /// A file cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Read(PathBuf, ParquetError),
    /// A file holds, or lacks, what a file of a sample does not.
    #[error("{}: {}", .0.display(), .1)]
    Shape(PathBuf, String),
}

/// Writes so many rows as two files into a folder, which is made or must be empty; a file without rows is left out.
/// Returns what was written. The bytes depend on the arguments and on the version of the libraries alone.
///
/// # Errors
/// If the folder is not empty, or cannot be written to.
pub fn generate(count: usize, seed: u64, voice: Voice, folder: &Path) -> Result<Vec<PathBuf>, SampleError> {
    prepare(folder)?;
    let rows = rows(count, seed, voice);
    let (programs, computed): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.family == Family::Program);
    let mut paths = Vec::new();
    for (name, rows, batch) in [(PROGRAMS, programs, program_batch as Shape), (COMPUTED, computed, computed_batch)] {
        if !rows.is_empty() {
            let path = folder.join(name);
            let failed = |error: ParquetError| SampleError::Write(path.clone(), error);
            let batch = batch(&rows).map_err(|error| failed(error.into()))?;
            write_file(&batch, &path).map_err(failed)?;
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Makes the folder, which may exist only if nothing is in it.
fn prepare(folder: &Path) -> Result<(), SampleError> {
    let failed = |error: std::io::Error| SampleError::Folder(folder.to_path_buf(), error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    match std::fs::read_dir(folder).map_err(failed)?.next() {
        Some(_) => Err(SampleError::NotEmpty(folder.to_path_buf())),
        None => Ok(()),
    }
}

/// Makes a table of rows.
type Shape = fn(&[&SampleRow]) -> Result<RecordBatch, ArrowError>;

fn write_file(batch: &RecordBatch, path: &Path) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(19)?))
        .set_created_by("asap sample".to_string())
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.close()?;
    Ok(())
}

fn program_batch(rows: &[&SampleRow]) -> Result<RecordBatch, ArrowError> {
    let generations = rows.iter().map(|row| row.chosen().text());
    table(vec![
        ("id", texts(rows.iter().map(|row| row.id.as_str()))),
        ("prompt", texts(rows.iter().map(|row| row.question.as_str()))),
        ("generation", texts(generations)),
        ("finish_reason", texts(rows.iter().map(|_| "stop"))),
        ("labels", labels(rows)),
    ])
}

fn computed_batch(rows: &[&SampleRow]) -> Result<RecordBatch, ArrowError> {
    let all = |text: &dyn Fn(&Generation) -> String| {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in rows {
            lists.append_value(row.generations.iter().map(|generation| Some(text(generation))));
        }
        Arc::new(lists.finish()) as ArrayRef
    };
    let flags = |flag: &dyn Fn(&Generation) -> bool| {
        let mut lists = ListBuilder::new(BooleanBuilder::new());
        for row in rows {
            lists.append_value(row.generations.iter().map(|generation| Some(flag(generation))));
        }
        Arc::new(lists.finish()) as ArrayRef
    };
    table(vec![
        ("problem", texts(rows.iter().map(|row| row.question.as_str()))),
        ("solution", texts(rows.iter().map(|row| row.solution.as_str()))),
        ("answer", texts(rows.iter().map(|row| row.answer.as_str()))),
        ("uuid", texts(rows.iter().map(|row| row.id.as_str()))),
        ("is_reasoning_complete", flags(&|_| true)),
        ("generations", all(&Generation::text)),
        ("correctness_math_verify", flags(&|generation| generation.is_verified)),
        ("finish_reasons", all(&|_| "stop".to_string())),
        ("messages", messages(rows)?),
        ("labels", labels(rows)),
    ])
}

fn table(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let fields: Vec<_> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn texts(texts: impl Iterator<Item = impl AsRef<str>>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}

fn labels(rows: &[&SampleRow]) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in rows {
        lists.append_value(row.labels().into_iter().map(|label| Some(label.name())));
    }
    Arc::new(lists.finish())
}

/// One turn each of user and assistant: the question and what was chosen.
fn messages(rows: &[&SampleRow]) -> Result<ArrayRef, ArrowError> {
    let roles = texts(rows.iter().flat_map(|_| ["user", "assistant"]));
    let contents = texts(rows.iter().flat_map(|row| [row.question.clone(), row.chosen().text()]));
    let fields: Fields = ["content", "role"].map(|name| Field::new(name, DataType::Utf8, true)).to_vec().into();
    let turns = StructArray::try_new(fields.clone(), vec![contents, roles], None)?;
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|_| 2));
    Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(turns), None)?))
}

/// Cuts the chain of a generation into steps; none where there is no chain.
type Cut = fn(&str) -> Option<Vec<&str>>;

/// The labelled steps of all chains of a sample's folder, cut as the caller does.
///
/// # Errors
/// If the folder holds no sample, a file cannot be read, or a chain's steps are not as many as its labels.
pub fn read_steps(folder: &Path, cut: Cut) -> Result<Vec<Step>, SampleError> {
    let mut found = Vec::new();
    for name in [PROGRAMS, COMPUTED] {
        let path = folder.join(name);
        if path.exists() {
            for batch in read_file(&path).map_err(|error| SampleError::Read(path.clone(), error))? {
                read_batch(&batch, &path, cut, &mut found)?;
            }
        }
    }
    if found.is_empty() {
        return Err(SampleError::NoSample(folder.to_path_buf()));
    }
    Ok(found)
}

fn read_file(path: &Path) -> Result<Vec<RecordBatch>, ParquetError> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()?;
    reader.map(|batch| Ok(batch?)).collect()
}

fn read_batch(batch: &RecordBatch, path: &Path, cut: Cut, found: &mut Vec<Step>) -> Result<(), SampleError> {
    let wrong = |what: String| SampleError::Shape(path.to_path_buf(), what);
    let column = |name: &str| batch.column_by_name(name).ok_or_else(|| wrong(format!("there is no column {name}")));
    let labels = column("labels")?.as_list_opt::<i32>().ok_or_else(|| wrong("labels is not a list".to_string()))?;
    for row in 0..batch.num_rows() {
        let generation = chosen(batch, row).ok_or_else(|| wrong(format!("row {row} has no verified generation")))?;
        let texts = cut(&generation).ok_or_else(|| wrong(format!("row {row} has no chain of thought")))?;
        let names = labels.value(row);
        let names: Vec<_> = names.as_string_opt::<i32>().into_iter().flatten().flatten().collect();
        if names.len() != texts.len() {
            return Err(wrong(format!("row {row} has {} steps and {} labels", texts.len(), names.len())));
        }
        for (text, name) in texts.into_iter().zip(names) {
            let label = Label::ALL.into_iter().find(|label| label.name() == name);
            let label = label.ok_or_else(|| wrong(format!("row {row} has the unknown label {name:?}")))?;
            found.push(Step { label, text: text.to_string() });
        }
    }
    Ok(())
}

/// The text that a reader of either shape takes from a row.
fn chosen(batch: &RecordBatch, row: usize) -> Option<String> {
    if let Some(column) = batch.column_by_name("generation") {
        return Some(column.as_string_opt::<i32>()?.value(row).to_string());
    }
    let flags = batch.column_by_name("correctness_math_verify")?.as_list_opt::<i32>()?.value(row);
    let place = flags.as_boolean_opt()?.iter().position(|flag| flag == Some(true))?;
    let generations = batch.column_by_name("generations")?.as_list_opt::<i32>()?.value(row);
    Some(generations.as_string_opt::<i32>()?.value(place).to_string())
}
