//! The recognized shape of each schema, with sample rows as asap reads them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::json::ArrayWriter;
use datafusion::catalog::{TableFunctionArgs, TableProvider};
use datafusion::common::{Result, internal_datafusion_err, plan_err};
use datafusion::dataframe;
use datafusion::execution::FunctionRegistry;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::col;
use datafusion::prelude::{DataFrame, SessionContext};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::corpus::rules::{RULES, Rule};
use crate::corpus::view;
use crate::corpus::{Corpus, Recognized, shape};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspected {
    pub files: usize,
    pub file: String,
    pub rows: u64,
    pub columns: Vec<(String, String)>,
    pub shape: String,
    /// The source of the question; `cot`, `answer` and `system` likewise.
    pub question: String,
    pub cot: String,
    pub answer: String,
    pub system: Option<String>,
    /// The column that marks correct rows; the other rows are rejects.
    pub flag: Option<String>,
    /// The equivalent mapping, as a starting point for changes.
    pub mapping: String,
    pub sample: Vec<InspectedRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectedRow {
    pub file: String,
    /// Row number in the file, from 0.
    pub row: i64,
    pub question: Option<String>,
    pub cot: Option<String>,
    pub answer: Option<String>,
    pub system: Option<String>,
    /// Why the row cannot be pruned, in one word.
    pub status: Option<String>,
    pub error: Option<String>,
    /// The turns of a conversation, as the column `turns` of the corpus has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<Value>>,
    /// The tokens of its thoughts, by the scoring model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_tokens: Option<i64>,
}

impl Corpus {
    /// Returns the recognized shape of each schema, with `rows` sample rows.
    ///
    /// # Errors
    /// If rows cannot be read.
    pub async fn inspect(&self, context: &SessionContext, rows: usize) -> Result<Vec<Inspected>> {
        let mut found = Vec::new();
        for group in &self.groups {
            found.push(self.inspect_group(context, group, rows).await?);
        }
        Ok(found)
    }

    async fn inspect_group(&self, context: &SessionContext, group: &Recognized, rows: usize) -> Result<Inspected> {
        let Recognized { table, shape, .. } = group;
        let plan = view::of_files(&context.state(), table, shape, &[])?;
        let shown = ["question", "cot", "answer", "system", "status", "error", "turns"].map(col);
        let place = [get_field(col("source"), "file").alias("file"), get_field(col("source"), "row").alias("row")];
        let sample = DataFrame::new(context.state(), plan)
            .limit(0, Some(rows))?
            .select(place.into_iter().chain(shown))?
            .collect()
            .await?;
        let mut sample = read(&sample)?;
        count_tokens(context, &mut sample).await?;
        let [question, cot, answer] = shape.described();
        Ok(Inspected {
            files: table.files().len(),
            file: table.files().first().map(|held| held.file.name.clone()).unwrap_or_default(),
            rows: table.files().iter().map(|held| held.rows_left()).sum(),
            columns: shape::kinds(table.file_schema()),
            shape: shape.rule.to_string(),
            question,
            cot,
            answer,
            system: shape.described_system(),
            flag: Some(shape.flags.join(", else ")).filter(|flags| !flags.is_empty()),
            mapping: shape.mapping().to_string(),
            sample,
        })
    }
}

/// Counts the tokens of the thoughts of conversations. Rows without conversations load no tokenizer.
async fn count_tokens(context: &SessionContext, sample: &mut [InspectedRow]) -> Result<()> {
    let conversations: Vec<&mut InspectedRow> = sample.iter_mut().filter(|row| row.turns.is_some()).collect();
    if conversations.is_empty() {
        return Ok(());
    }
    let chains: StringArray = conversations.iter().map(|row| row.cot.as_deref()).collect();
    let batch = RecordBatch::try_from_iter([("cot", Arc::new(chains) as ArrayRef)])?;
    let tokens = context.udf("cot_tokens")?.call(vec![col("cot")]);
    let counted = context.read_batch(batch)?.select([tokens])?.collect().await?;
    let counts = counted.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>());
    for (row, tokens) in conversations.into_iter().zip(counts) {
        row.thought_tokens = tokens;
    }
    Ok(())
}

fn read(batches: &[RecordBatch]) -> Result<Vec<InspectedRow>> {
    let mut json = ArrayWriter::new(Vec::new());
    json.write_batches(&batches.iter().collect::<Vec<_>>())?;
    json.finish()?;
    serde_json::from_slice(&json.into_inner()).map_err(|error| internal_datafusion_err!("a sample row: {error}"))
}

/// The table function `corpus_shapes()`: every layout that asap recognizes by column names, in the order of the tries.
pub(crate) fn corpus_shapes(args: &TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
    if !args.exprs().is_empty() {
        return plan_err!("corpus_shapes takes no arguments");
    }
    let column = |of: fn(&Rule) -> String| RULES.iter().map(of).collect::<Vec<_>>();
    let rows = dataframe!(
        "place" => (1..=RULES.len() as i64).collect::<Vec<_>>(),
        "shape" => column(|rule| rule.name.to_string()),
        "question" => column(|rule| rule.question.join(", ")),
        "cot" => column(|rule| rule.cot.join(", ")),
        "answer" => column(|rule| rule.answer.join(", ")),
        "read_as" => column(|rule| rule.form.description().to_string()),
    )?;
    Ok(rows.into_view())
}
