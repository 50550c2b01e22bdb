//! What each commit to an output did.

use datafusion::common::{Result, exec_datafusion_err};
use object_store::ObjectStoreExt;
use serde::Serialize;
use serde_json::Value;

use crate::delta::{LiveFile, commit_path};
use crate::outputs::{open, table};

/// One commit.
#[derive(Debug, Default, Serialize)]
pub struct Commit {
    /// The version that it made.
    pub version: u64,
    /// When, in milliseconds since 1970 (UTC).
    pub time: Option<i64>,
    /// What was done: as its writer calls it, or as a run of asap says.
    pub operation: String,
    /// The attempt of asap that made it.
    pub run: Option<String>,
    /// Slices that it made done.
    pub slices: u64,
    /// Input rows of these slices; none if the commit does not say.
    pub rows_in: Option<u64>,
    /// Those of them that were rejected.
    pub rows_rejected: Option<u64>,
    /// Rows in the shards that it added.
    pub rows_added: u64,
    /// Shards that it added.
    pub shards_added: u64,
    /// Shards that it removed.
    pub shards_removed: u64,
    /// Bytes of the shards that it added.
    pub bytes_added: u64,
}

/// The last commits to the output at a location, newest first: all that its log still holds, or so many.
///
/// # Errors
/// If there is no output, or if its log cannot be read.
pub async fn history(location: &str, limit: Option<usize>) -> Result<Vec<Commit>> {
    let output = open(location).await?;
    let log = table(&output)?;
    let mut commits = Vec::new();
    for version in (0..=log.state().version).rev().take(limit.unwrap_or(usize::MAX)) {
        let bytes = match log.store().get(&commit_path(version)).await {
            Ok(found) => found.bytes().await?,
            // The log's beginning was cleaned: a checkpoint stands for it.
            Err(object_store::Error::NotFound { .. }) => break,
            Err(error) => return Err(error.into()),
        };
        commits.push(commit(version, &bytes)?);
    }
    Ok(commits)
}

fn commit(version: u64, bytes: &[u8]) -> Result<Commit> {
    let failed =
        |error: serde_json::Error| exec_datafusion_err!("version {version} holds what is no action of Delta: {error}");
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
