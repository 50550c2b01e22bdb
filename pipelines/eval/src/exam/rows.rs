//! The rows of an exam: one for each question and variant.

use std::collections::HashMap;

use asap_pipelines::location;
use asap_pipelines::whole_table;
use datafusion::arrow::datatypes::DataType;
use serde::{Deserialize, Serialize};
use url::Url;

use super::variants::Variant;
use crate::failure::Failure;

/// The property of a table that says it is an exam, and of which questions.
pub(super) const PROPERTY: &str = "asap.exam";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Source {
    row: i64,
}

#[derive(Debug, Clone, Deserialize)]
struct OfRun {
    source: Source,
    #[serde(flatten)]
    examined: Examined,
}

/// What a variant leaves of a chain, and what the scoring model makes of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Examined {
    pub question: String,
    pub tokens: i64,
    pub original_tokens: i64,
    /// The mean log-probability of the answer's tokens, in nats.
    pub log_probability: Option<f64>,
    pub stated: Option<String>,
    pub survives: Option<bool>,
    pub unstated_log_probability: Option<f64>,
    pub unstated_stated: Option<String>,
    pub unstated_survives: Option<bool>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct ExamRow {
    pub pipeline: String,
    pub share: f64,
    pub draw: i64,
    /// The index of the question in the sample.
    pub place: i64,
    #[serde(flatten)]
    pub examined: Examined,
}

/// The columns of a row, in order.
const COLUMNS: [(DataType, &str); 11] = [
    (DataType::Utf8, "pipeline"),
    (DataType::Float64, "share"),
    (DataType::Int64, "draw place"),
    (DataType::Utf8, "question"),
    (DataType::Int64, "tokens original_tokens"),
    (DataType::Float64, "log_probability"),
    (DataType::Utf8, "stated"),
    (DataType::Boolean, "survives"),
    (DataType::Float64, "unstated_log_probability"),
    (DataType::Utf8, "unstated_stated"),
    (DataType::Boolean, "unstated_survives"),
];

/// Reads the rows of a variant that its runs have committed.
pub(super) async fn of(folder: &str, variant: &Variant) -> Result<Vec<ExamRow>, Failure> {
    let table = whole_table::read(&location::folder(&format!("{folder}/{}", variant.name()))?).await?;
    let found = table.unwrap_or_default().rows()?.into_iter().map(|OfRun { source, examined }| ExamRow {
        pipeline: variant.pipeline.clone(),
        share: variant.share,
        draw: variant.draw as i64,
        place: source.row,
        examined,
    });
    Ok(found.collect())
}

/// Writes the rows of all variants to the table of the exam, and returns them.
pub(super) async fn write(url: &Url, of: &[Vec<ExamRow>], identity: &str) -> Result<Vec<ExamRow>, Failure> {
    let mut rows = of.concat();
    rows.sort_by_key(|row| row.place);
    let batch = whole_table::batch(&COLUMNS, &rows)?;
    whole_table::replace(url, &batch, HashMap::from([(PROPERTY.to_string(), Some(identity.to_string()))])).await?;
    Ok(rows)
}
