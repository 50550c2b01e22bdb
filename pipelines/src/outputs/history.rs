//! The commits to an output.

use datafusion::common::{Result, exec_datafusion_err};
use serde::Serialize;
use serde_json::Value;

use crate::delta::LiveFile;
use crate::outputs::{open, table};

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
    /// Rejected rows of these slices.
    pub rows_rejected: Option<u64>,
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
        let Some(bytes) = log.read(version).await? else { break };
        commits.push(commit(version, &bytes)?);
    }
    Ok(commits)
}

fn commit(version: u64, bytes: &[u8]) -> Result<Commit> {
    let failed = |error: serde_json::Error| {
        exec_datafusion_err!("version {version} contains an entry that is not a Delta action: {error}")
    };
    let mut commit = Commit { version, ..Commit::default() };
    for line in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        let mut line = line.map_err(failed)?;
        if let Some(info) = line.get("commitInfo") {
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
            commit.slices = info["asap"]["slices"].as_array().map_or(0, |slices| slices.len() as u64);
        } else if line.get("remove").is_some() {
            commit.shards_removed += 1;
        } else if let Some(add) = line.get_mut("add") {
            let shard: LiveFile = serde_json::from_value(add.take()).map_err(failed)?;
            commit.shards_added += 1;
            commit.rows_added += shard.rows().unwrap_or(0);
            commit.bytes_added += shard.size;
        }
    }
    if commit.operation == "WRITE" && commit.shards_removed > 0 {
        commit.operation = "REPLACE".to_string();
    }
    Ok(commit)
}
