//! The commits to an output.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::{MemTable, TableFunctionArgs, TableProvider};
use datafusion::common::{Result, plan_err};
use serde::Serialize;

use crate::corpus::function::{texts, wait_for};
use crate::delta::Line;
use crate::outputs::{open, table};
use crate::whole_table;

#[derive(Debug, Default, Serialize)]
pub struct Commit {
    pub version: u64,
    /// Milliseconds since 1970 (UTC).
    pub time: Option<i64>,
    /// The operation, as named by its writer or derived from the record of a run.
    pub operation: String,
    pub run: Option<String>,
    /// Slices that became done.
    pub slices: u64,
    /// Input rows of these slices; None if the commit does not record them.
    pub rows_in: Option<u64>,
    /// Rows of these slices that are in the output, with retried ones.
    pub rows_out: Option<u64>,
    /// Rejected rows of these slices.
    pub rows_rejected: Option<u64>,
    pub rows_filtered: Option<u64>,
    /// Calls, tokens, cost and seconds of the run until this commit.
    pub calls: Option<u64>,
    pub tokens_in: Option<u64>,
    pub tokens_out: Option<u64>,
    pub cost: Option<f64>,
    pub seconds: Option<f64>,
    pub rows_added: u64,
    pub shards_added: u64,
    pub shards_removed: u64,
    pub bytes_added: u64,
}

/// The last commits to the output at a location, newest first: at most `limit`, or all that its log still has.
pub async fn history(location: &str, limit: Option<usize>) -> Result<Vec<Commit>> {
    let output = open(location).await?;
    let log = table(&output)?;
    let mut commits = Vec::new();
    for version in (0..=log.state.version).rev().take(limit.unwrap_or(usize::MAX)) {
        // A checkpoint replaces the cleaned beginning of the log.
        let Some(lines) = log.read(version).await? else { break };
        commits.push(commit(version, lines));
    }
    Ok(commits)
}

fn commit(version: u64, lines: Vec<Line>) -> Commit {
    let mut commit = Commit { version, ..Commit::default() };
    for Line { commit_info, add, remove, .. } in lines {
        if let Some(info) = commit_info {
            commit.time = info["timestamp"].as_i64();
            commit.operation = info["operation"].as_str().unwrap_or_default().to_string();
            if info["asap"]["finished"].is_u64() {
                commit.operation = "END".to_string();
            } else if info["asap"]["generation"].is_u64() {
                commit.operation = "NEW GENERATION".to_string();
            }
            commit.run = info["asap"]["run"].as_str().map(str::to_string);
            let rows = |name: &str| info["asap"]["counts"][name].as_u64();
            (commit.rows_in, commit.rows_rejected) = (rows("rows_in"), rows("rows_rejected"));
            (commit.rows_out, commit.rows_filtered) = (rows("rows_out"), rows("rows_filtered"));
            let run = &info["asap"]["summary"];
            let calls = |name: &str| run["anchor"][name].as_u64();
            (commit.calls, commit.tokens_in, commit.tokens_out) =
                (calls("calls"), calls("tokens_in"), calls("tokens_out"));
            (commit.cost, commit.seconds) = (run["anchor"]["cost"].as_f64(), run["seconds"].as_f64());
            commit.slices = info["asap"]["slices"].as_array().map_or(0, |slices| slices.len() as u64);
        } else if let Some(shard) = add {
            commit.shards_added += 1;
            commit.rows_added += shard.rows().unwrap_or(0);
            commit.bytes_added += shard.size;
        }
        commit.shards_removed += u64::from(remove.is_some());
    }
    if commit.operation == "WRITE" && commit.shards_removed > 0 {
        commit.operation = "REPLACE".to_string();
    }
    commit
}

/// The table function `cot_history('LOC')`: the commits to an output, newest first, with the sums that they record.
pub(crate) fn cot_history(args: &TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
    let texts = texts(args);
    let Some([location]) = texts.as_deref() else {
        return plan_err!("cot_history takes the location of an output, as text");
    };
    let commits = wait_for(|| history(location, None))?;
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let columns = [
        (DataType::Int64, "version"),
        (time, "time"),
        (DataType::Utf8, "operation run"),
        (DataType::Int64, "slices rows_in rows_out rows_rejected rows_filtered calls tokens_in tokens_out"),
        (DataType::Float64, "cost seconds"),
        (DataType::Int64, "rows_added shards_added shards_removed bytes_added"),
    ];
    let rows = whole_table::batch(&columns, &commits)?;
    Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
}
