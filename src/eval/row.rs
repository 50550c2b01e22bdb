//! The rows of an evaluation's table: one for each response.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

/// A response and its grade.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub bench: String,
    pub id: String,
    /// The index of the response among those to this problem at this budget.
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

pub(crate) fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let integer = |name: &str| Field::new(name, DataType::Int64, true);
    let number = |name: &str| Field::new(name, DataType::Float64, true);
    Arc::new(Schema::new(vec![
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
    ]))
}
