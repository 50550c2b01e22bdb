//! The receipt of a written slice: what its commit adds, and its counts.

use std::collections::BTreeMap;

use asap_kernels::steps::Separator;
use asap_udfs::Settings;
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::{cast, sum};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use deltalake_core::kernel::Add;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Receipt {
    pub slice: String,
    pub output: Vec<Add>,
    pub rejects: Vec<Add>,
    pub counts: Counts,
    /// The counters of language model calls in the slice's operators, by their names in EXPLAIN ANALYZE.
    pub usage: BTreeMap<String, u64>,
    pub seconds: BTreeMap<String, f64>,
}

/// Counts of rows, tokens and steps. Tokens are those of the scoring model's tokenizer. Tokens and steps of original
/// chains cover all rows that the pipeline returns, rejects too, so they do not depend on the method. The others cover
/// rows of the output. A count is None if the pipeline does not return its column.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Equal to `rows_out + rows_rejected + rows_filtered`.
    pub rows_in: u64,
    pub rows_out: u64,
    /// Rows with a status that is not ok.
    pub rows_rejected: u64,
    /// Rows that the WHERE of the pipeline filtered out.
    pub rows_filtered: u64,
    /// Rows of the output that lost every step.
    pub rows_emptied: u64,
    pub rejects: BTreeMap<String, u64>,
    pub tokens_in: Option<u64>,
    /// Tokens after stage 1.
    pub tokens_coarse: Option<u64>,
    /// Rows of the output whose chain stage 1 alone shortened to at most the budget.
    #[serde(default)]
    pub rows_short_after_stage_1: u64,
    pub tokens_out: Option<u64>,
    pub steps_in: Option<u64>,
    /// Tokens and steps of the original chains of the output's rows.
    pub tokens_before: Option<u64>,
    pub steps_before: Option<u64>,
    pub steps_out: Option<u64>,
}

impl Counts {
    pub(crate) fn count_originals(&mut self, batch: &RecordBatch, separator: Separator) {
        add(&mut self.tokens_in, column_sum(batch, "original_tokens"));
        add(&mut self.steps_in, count_original_steps(batch, separator));
    }

    pub(crate) fn count_output(&mut self, batch: &RecordBatch) {
        self.rows_out += batch.num_rows() as u64;
        add(&mut self.tokens_before, column_sum(batch, "original_tokens"));
        add(&mut self.steps_before, count_original_steps(batch, Separator::default()));
        add(&mut self.tokens_coarse, column_sum(batch, "coarse_tokens"));
        add(&mut self.tokens_out, column_sum(batch, "pruned_tokens"));
        add(&mut self.steps_out, count_kept_steps(batch));
        self.rows_emptied += count_empty(batch);
    }

    pub(crate) fn count_short_after_stage_1(&mut self, batch: &RecordBatch, settings: &Settings) {
        let column = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
        let columns = ["original_tokens", "coarse_tokens", "pruned_tokens"].map(column);
        let [Some(original), Some(coarse), Some(pruned)] = columns else { return };
        let is_short = |((original, coarse), pruned): &((Option<i64>, Option<i64>), Option<i64>)| {
            let budget = Some(settings.budget(*original));
            *coarse <= budget && budget < *original && coarse.is_some() && coarse == pruned
        };
        self.rows_short_after_stage_1 += original.iter().zip(coarse).zip(pruned).filter(is_short).count() as u64;
    }

    pub(crate) fn count_reject(&mut self, status: &str) {
        self.rows_rejected += 1;
        *self.rejects.entry(status.to_string()).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        let Self { rows_in, rows_out, rows_rejected, rows_filtered, rows_emptied, rejects, .. } = other;
        self.rows_in += rows_in;
        self.rows_out += rows_out;
        self.rows_rejected += rows_rejected;
        self.rows_filtered += rows_filtered;
        self.rows_emptied += rows_emptied;
        self.rows_short_after_stage_1 += other.rows_short_after_stage_1;
        for (status, rows) in rejects {
            *self.rejects.entry(status.clone()).or_default() += rows;
        }
        add(&mut self.tokens_in, other.tokens_in);
        add(&mut self.tokens_before, other.tokens_before);
        add(&mut self.steps_before, other.steps_before);
        add(&mut self.tokens_coarse, other.tokens_coarse);
        add(&mut self.tokens_out, other.tokens_out);
        add(&mut self.steps_in, other.steps_in);
        add(&mut self.steps_out, other.steps_out);
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

/// Counts the steps of the original chains: from the column `steps`, or from the chain itself if a stage failed and
/// left `steps` NULL.
fn count_original_steps(batch: &RecordBatch, separator: Separator) -> Option<u64> {
    let lists = batch.column_by_name("steps")?.as_list_opt::<i32>()?;
    let chains = batch.column_by_name("original_cot").and_then(|chains| cast(chains, &DataType::Utf8View).ok());
    let chains = chains.as_ref().map(|chains| chains.as_string_view());
    let of_row = |row: usize| match chains {
        _ if lists.is_valid(row) => lists.value_length(row) as usize,
        Some(chains) if chains.is_valid(row) => separator.steps(chains.value(row)).len(),
        _ => 0,
    };
    Some((0..batch.num_rows()).map(of_row).sum::<usize>() as u64)
}

fn count_kept_steps(batch: &RecordBatch) -> Option<u64> {
    let lists = batch.column_by_name("steps")?.as_list_opt::<i32>()?;
    let first = lists.value_offsets().first().copied().unwrap_or(0) as usize;
    let last = lists.value_offsets().last().copied().unwrap_or(0) as usize;
    let items = lists.values().slice(first, last - first);
    let dropped = items.as_struct_opt()?.column_by_name("dropped")?.clone();
    Some(dropped.logical_null_count() as u64)
}

fn count_empty(batch: &RecordBatch) -> u64 {
    let Some(chains) = batch.column_by_name("cot") else { return 0 };
    let Ok(chains) = cast(chains, &DataType::Utf8View) else { return 0 };
    chains.as_string_view().iter().filter(|chain| *chain == Some("")).count() as u64
}
