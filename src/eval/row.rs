//! The rows of an evaluation's table: one for each response.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::json::{ArrayWriter, ReaderBuilder};
use datafusion::common::{Result, exec_datafusion_err};
use serde::{Deserialize, Serialize};

/// A response and its grade.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub bench: String,
    pub id: String,
    /// The number of the response among those to this problem at this budget, from 0.
    pub sample: i64,
    /// The most tokens of the response.
    pub budget: i64,
    pub model: String,
    pub temperature: f64,
    pub top_p: f64,
    pub prompt: String,
    /// The response, with its chain in think tags. None if the call failed.
    pub response: Option<String>,
    /// `stop`, or `length` if the response was cut off at the budget.
    pub finish_reason: Option<String>,
    /// The answer or the program in the response.
    pub answer: Option<String>,
    /// The expected answer. None for programs.
    pub gold: Option<String>,
    /// None if the call failed.
    pub correct: Option<bool>,
    /// `ok`, or why the response is not correct.
    pub why: String,
    /// The tokens of the response.
    pub tokens: Option<i64>,
    /// The time from the request to the last token, waiting in the endpoint's queue included.
    pub seconds: Option<f64>,
}

fn schema() -> Schema {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let integer = |name: &str| Field::new(name, DataType::Int64, true);
    let number = |name: &str| Field::new(name, DataType::Float64, true);
    Schema::new(vec![
        text("bench"),
        text("id"),
        integer("sample"),
        integer("budget"),
        text("model"),
        number("temperature"),
        number("top_p"),
        text("prompt"),
        text("response"),
        text("finish_reason"),
        text("answer"),
        text("gold"),
        Field::new("correct", DataType::Boolean, true),
        text("why"),
        integer("tokens"),
        number("seconds"),
    ])
}

pub(crate) fn to_batch(rows: &[Row]) -> Result<RecordBatch> {
    let schema = Arc::new(schema());
    let mut decoder = ReaderBuilder::new(Arc::clone(&schema)).with_batch_size(rows.len().max(1)).build_decoder()?;
    decoder.serialize(rows)?;
    Ok(decoder.flush()?.unwrap_or_else(|| RecordBatch::new_empty(schema)))
}

/// # Errors
/// If the batches are not those of an evaluation.
pub(crate) fn of_batches(batches: &[RecordBatch]) -> Result<Vec<Row>> {
    let mut writer = ArrayWriter::new(Vec::new());
    writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
    writer.finish()?;
    let json = writer.into_inner();
    if json.is_empty() {
        return Ok(vec![]);
    }
    serde_json::from_slice(&json)
        .map_err(|error| exec_datafusion_err!("its columns are not those of asap eval: {error}"))
}
