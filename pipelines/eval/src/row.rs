//! The rows of an evaluation's table: one for each response.

use datafusion::arrow::datatypes::DataType;
use serde::{Deserialize, Serialize};

/// A response and its grade.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Graded {
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
    /// The endpoint's word for the end, such as `stop`, or `length` if the response was cut off at the budget.
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

/// The columns of a row, in order.
pub(crate) const COLUMNS: [(DataType, &str); 9] = [
    (DataType::Utf8, "bench id"),
    (DataType::Int64, "sample budget"),
    (DataType::Utf8, "model"),
    (DataType::Float64, "temperature top_p"),
    (DataType::Utf8, "prompt response finish_reason answer gold"),
    (DataType::Boolean, "correct"),
    (DataType::Utf8, "why"),
    (DataType::Int64, "tokens"),
    (DataType::Float64, "seconds"),
];
