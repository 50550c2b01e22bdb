//! Writes the sample as files with the columns of two published datasets.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Int64Array, ListArray, ListBuilder, RecordBatch, StringArray, StringBuilder, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::functions::Function;
use crate::problems::Family;
use crate::rows::{Generation, Openers, SampleRow, rows};
use crate::totals::{Total, totals};
use crate::trace::Label;

const PROGRAMS: &str = "codeforces-cots.parquet";
const COMPUTED: &str = "openr1-math.parquet";
const SUMS: &str = "sums.parquet";

#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    #[error("{} is not empty; name a new folder, or delete its files", .0.display())]
    NotEmpty(PathBuf),
    /// The output folder cannot be created or read.
    #[error("cannot write to {}: {}", .0.display(), .1)]
    Folder(PathBuf, std::io::Error),
    #[error("cannot write {}: {}", .0.display(), .1)]
    Write(PathBuf, ParquetError),
}

/// Writes `count` rows as two files into a folder. Creates the folder; an existing one must be empty. A file without
/// rows is left out. Returns the written files. Their bytes depend only on the arguments and on the library versions.
///
/// # Errors
/// If the folder is not empty, or cannot be written to.
pub fn generate(count: usize, seed: u64, openers: Openers, folder: &Path) -> Result<Vec<PathBuf>, SampleError> {
    prepare(folder)?;
    let rows = rows(count, seed, openers);
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

/// Writes `count` short sums as one file into a folder, as [`generate`] does. The column `concise` holds the core steps
/// of the chain, and `id` the number of the row, from 0.
///
/// # Errors
/// If the folder is not empty, or cannot be written to.
pub fn generate_sums(count: usize, seed: u64, folder: &Path) -> Result<Vec<PathBuf>, SampleError> {
    prepare(folder)?;
    let path = folder.join(SUMS);
    let failed = |error: ParquetError| SampleError::Write(path.clone(), error);
    let batch = sums_batch(&totals(count, seed)).map_err(|error| failed(error.into()))?;
    write_file(&batch, &path).map_err(failed)?;
    Ok(vec![path])
}

fn prepare(folder: &Path) -> Result<(), SampleError> {
    let failed = |error: std::io::Error| SampleError::Folder(folder.to_path_buf(), error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    match std::fs::read_dir(folder).map_err(failed)?.next() {
        Some(_) => Err(SampleError::NotEmpty(folder.to_path_buf())),
        None => Ok(()),
    }
}

const ZSTD_LEVEL: i32 = 12;

type Shape = fn(&[&SampleRow]) -> Result<RecordBatch, ArrowError>;

fn write_file(batch: &RecordBatch, path: &Path) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_created_by("asap sample".to_string())
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.close()?;
    Ok(())
}

fn program_batch(rows: &[&SampleRow]) -> Result<RecordBatch, ArrowError> {
    let generations = rows.iter().map(|row| row.chosen().text());
    table(
        rows,
        vec![
            ("id", texts(rows.iter().map(|row| row.id.as_str()))),
            ("prompt", texts(rows.iter().map(|row| row.question.as_str()))),
            ("generation", texts(generations)),
            ("finish_reason", texts(rows.iter().map(|_| "stop"))),
        ],
    )
}

fn computed_batch(rows: &[&SampleRow]) -> Result<RecordBatch, ArrowError> {
    let all = |text: &dyn Fn(&Generation) -> String| lists(rows, |row| row.generations.iter().map(text).collect());
    let flags = |flag: &dyn Fn(&Generation) -> bool| {
        let mut lists = ListBuilder::new(BooleanBuilder::new());
        for row in rows {
            lists.append_value(row.generations.iter().map(|generation| Some(flag(generation))));
        }
        Arc::new(lists.finish()) as ArrayRef
    };
    table(
        rows,
        vec![
            ("problem", texts(rows.iter().map(|row| row.question.as_str()))),
            ("solution", texts(rows.iter().map(|row| row.solution.as_str()))),
            ("answer", texts(rows.iter().map(|row| row.answer.as_str()))),
            ("uuid", texts(rows.iter().map(|row| row.id.as_str()))),
            ("is_reasoning_complete", flags(&|_| true)),
            ("generations", all(&Generation::text)),
            ("correctness_math_verify", flags(&|generation| generation.is_verified)),
            ("finish_reasons", all(&|_| "stop".to_string())),
            ("messages", messages(rows)?),
        ],
    )
}

fn sums_batch(totals: &[Total]) -> Result<RecordBatch, ArrowError> {
    let labels = |total: &Total| total.steps.iter().map(|step| step.label.name()).collect::<Vec<_>>();
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..totals.len() as i64))),
        ("question", texts(totals.iter().map(|total| total.question.as_str()))),
        ("cot", texts(totals.iter().map(Total::cot))),
        ("answer", texts(totals.iter().map(Total::response))),
        ("concise", texts(totals.iter().map(Total::concise))),
        ("labels", lists(totals, labels)),
    ])
}

/// Appends the labels and functions of the steps to the columns of a dataset.
fn table(rows: &[&SampleRow], mut columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    columns.push(("labels", lists(rows, |row| row.labels().into_iter().map(Label::name).collect())));
    if rows.iter().any(|row| !row.functions().is_empty()) {
        columns.push(("functions", lists(rows, |row| row.functions().into_iter().map(Function::name).collect())));
    }
    batch(columns)
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let fields: Vec<_> =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn texts(texts: impl Iterator<Item = impl AsRef<str>>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(texts))
}

fn lists<T, S: AsRef<str>>(rows: &[T], texts: impl Fn(&T) -> Vec<S>) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in rows {
        lists.append_value(texts(row).into_iter().map(Some));
    }
    Arc::new(lists.finish())
}

fn messages(rows: &[&SampleRow]) -> Result<ArrayRef, ArrowError> {
    let roles = texts(rows.iter().flat_map(|_| ["user", "assistant"]));
    let contents = texts(rows.iter().flat_map(|row| [row.question.clone(), row.chosen().text()]));
    let fields: Fields = ["content", "role"].map(|name| Field::new(name, DataType::Utf8, true)).to_vec().into();
    let turns = StructArray::try_new(fields.clone(), vec![contents, roles], None)?;
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|_| 2));
    Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(turns), None)?))
}
