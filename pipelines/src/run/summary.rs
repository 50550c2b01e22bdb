//! What a run did, for people and machines.

use std::collections::BTreeMap;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::sum;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use serde::Serialize;

use asap_udfs::llm::Usage;

/// The figures of a run. Tokens and steps are counted over the rows of the output, in the scoring model's tokenizer;
/// they are None where the pipeline does not return the column that holds them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The pipeline's name.
    pub pipeline: String,
    /// Where rows came from.
    pub from: String,
    /// Where rows went.
    pub to: String,
    /// Rows read. Equal to `rows_out + rows_rejected + rows_filtered`.
    pub rows_in: u64,
    /// Rows in the output.
    pub rows_out: u64,
    /// Rows with a status that is not ok.
    pub rows_rejected: u64,
    /// Rows that the pipeline's WHERE took out.
    pub rows_filtered: u64,
    /// Rows of the output that lost every step.
    pub rows_emptied: u64,
    /// Rejected rows by status.
    pub rejects: BTreeMap<String, u64>,
    /// Tokens of the original chains.
    pub tokens_in: Option<u64>,
    /// Tokens after stage 1.
    pub tokens_coarse: Option<u64>,
    /// Tokens of the pruned chains.
    pub tokens_out: Option<u64>,
    /// Steps of the original chains.
    pub steps_in: Option<u64>,
    /// Steps of the pruned chains.
    pub steps_out: Option<u64>,
    /// Wall-clock time in seconds.
    pub seconds: f64,
    /// Where the time went: seconds by part, summed over threads.
    pub seconds_by_part: BTreeMap<String, f64>,
    /// The version of the output table after the run.
    pub table_version: Option<u64>,
    /// True if every slice of the input was already in the output.
    pub nothing_to_do: bool,
    /// What the calls to a language model took.
    pub anchor: Usage,
    /// What the user should know about the input, such as columns that were renamed.
    pub notes: Vec<String>,
}

impl Summary {
    /// Counts a batch of output rows.
    pub fn count_output(&mut self, batch: &RecordBatch) {
        self.rows_out += batch.num_rows() as u64;
        add(&mut self.tokens_in, column_sum(batch, "original_tokens"));
        add(&mut self.tokens_coarse, column_sum(batch, "coarse_tokens"));
        add(&mut self.tokens_out, column_sum(batch, "pruned_tokens"));
        let steps = count_steps(batch);
        add(&mut self.steps_in, steps.map(|(all, _)| all));
        add(&mut self.steps_out, steps.map(|(_, kept)| kept));
        self.rows_emptied += count_empty(batch);
    }

    /// Counts a rejected row.
    pub fn count_reject(&mut self, status: &str) {
        self.rows_rejected += 1;
        *self.rejects.entry(status.to_string()).or_default() += 1;
    }
}

fn add(total: &mut Option<u64>, found: Option<u64>) {
    if let Some(found) = found {
        *total = Some(total.unwrap_or(0) + found);
    }
}

fn column_sum(batch: &RecordBatch, name: &str) -> Option<u64> {
    let column = batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
    Some(sum(column).unwrap_or(0).max(0) as u64)
}

/// Steps in all and steps that no stage dropped, by the column `steps`.
fn count_steps(batch: &RecordBatch) -> Option<(u64, u64)> {
    let lists = batch.column_by_name("steps")?.as_list_opt::<i32>()?;
    let first = lists.value_offsets().first().copied().unwrap_or(0) as usize;
    let last = lists.value_offsets().last().copied().unwrap_or(0) as usize;
    let items = lists.values().slice(first, last - first);
    let dropped = items.as_struct_opt()?.column_by_name("dropped")?.clone();
    Some((items.len() as u64, dropped.logical_null_count() as u64))
}

fn count_empty(batch: &RecordBatch) -> u64 {
    let Some(chains) = batch.column_by_name("cot") else { return 0 };
    let empty = match chains.data_type() {
        DataType::Utf8 => chains.as_string::<i32>().iter().filter(|chain| *chain == Some("")).count(),
        DataType::LargeUtf8 => chains.as_string::<i64>().iter().filter(|chain| *chain == Some("")).count(),
        DataType::Utf8View => chains.as_string_view().iter().filter(|chain| *chain == Some("")).count(),
        _ => 0,
    };
    empty as u64
}
