//! A log as it is found: its last checkpoint and the commits behind it.

use std::collections::BTreeMap;

use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::common::{Result, exec_err};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::Deserialize;

use super::actions::{self, Line};
use super::{FOLDER, State, commit_path, read_commit};

/// Commits that are read at the same time.
const CONCURRENT_COMMITS: usize = 32;
/// The columns of a checkpoint that a state is made of.
const COLUMNS: [&str; 5] = ["txn", "add", "remove", "metaData", "protocol"];

/// Where the last checkpoint is, so that the log's beginning need not be listed.
#[derive(Deserialize)]
struct LastCheckpoint {
    version: u64,
}

/// Reads a log; None if there is none.
pub(super) async fn read(store: &dyn ObjectStore) -> Result<Option<State>> {
    let hint = last_checkpoint(store).await?;
    let mut found = list(store, hint).await?;
    if found.commits.is_empty() && found.checkpoints.is_empty() && hint > 0 {
        found = list(store, 0).await?;
    }
    let checkpoint = found.checkpoints.iter().rev().find(|(_, files)| files.is_whole());
    let base = checkpoint.map(|(version, _)| *version);
    let Some(last) = found.commits.last().copied().max(base) else { return Ok(None) };
    let first = base.map_or(0, |version| version + 1);

    let mut lines = Vec::new();
    if let Some((version, files)) = checkpoint {
        for path in &files.paths {
            lines.extend(read_checkpoint(store, path, *version).await?);
        }
    }
    let commits = futures::stream::iter(first..=last).map(async |version| (version, read_commit(store, version).await));
    let commits: Vec<_> = commits.buffered(CONCURRENT_COMMITS).collect().await;
    for (version, commit) in commits {
        let Some(commit) = commit? else {
            return exec_err!("version {version} is missing between versions {first} and {last}");
        };
        lines.extend(commit);
    }
    state(last, lines).map(Some)
}

fn state(version: u64, lines: Vec<Line>) -> Result<State> {
    let has = |what: fn(&Line) -> bool| lines.iter().any(what);
    if !(has(|line| line.meta_data.is_some()) && has(|line| line.protocol.is_some())) {
        return exec_err!("it does not say what the table's columns are");
    }
    let mut state = State {
        version,
        protocol: Default::default(),
        metadata: Default::default(),
        transactions: Default::default(),
        recent: Vec::new(),
        files: BTreeMap::new(),
        removed: BTreeMap::new(),
    };
    lines.into_iter().for_each(|line| state.apply(line));
    state.recent.clear();
    Ok(state)
}

/// What a listing of the log holds, by version.
#[derive(Default)]
struct Found {
    commits: Vec<u64>,
    checkpoints: BTreeMap<u64, Checkpoint>,
}

/// The files of a checkpoint, and how many there should be.
#[derive(Default)]
struct Checkpoint {
    paths: Vec<Path>,
    parts: usize,
}

impl Checkpoint {
    fn is_whole(&self) -> bool {
        self.paths.len() == self.parts
    }
}

async fn list(store: &dyn ObjectStore, from: u64) -> Result<Found> {
    let folder = Path::from(FOLDER);
    let offset = Path::from_iter([FOLDER, &format!("{from:020}")]);
    let mut paths: Vec<Path> =
        match store.list_with_offset(Some(&folder), &offset).map_ok(|file| file.location).try_collect().await {
            Err(object_store::Error::NotFound { .. }) => vec![],
            listed => listed?,
        };
    paths.sort();
    let mut found = Found::default();
    for path in paths {
        let name = path.filename().unwrap_or_default();
        let Some((version, rest)) = name.split_once('.') else { continue };
        let (Ok(version), 20) = (version.parse::<u64>(), version.len()) else { continue };
        if path == commit_path(version) {
            found.commits.push(version);
        } else if let Some(parts) = checkpoint_parts(rest) {
            let checkpoint = found.checkpoints.entry(version).or_default();
            checkpoint.parts = parts;
            checkpoint.paths.push(path);
        }
    }
    Ok(found)
}

/// Of how many files a checkpoint is made, by what stands behind the version in the name of one of them:
/// `checkpoint.parquet`, or `checkpoint.<part>.<parts>.parquet`. Those of the newer kind are passed over: tables that
/// need them are refused, and the commits before them are there as long as they are the only ones.
fn checkpoint_parts(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix("checkpoint.")?;
    if inner == "parquet" {
        return Some(1);
    }
    let (part, parts) = inner.strip_suffix(".parquet")?.split_once('.')?;
    part.parse::<usize>().ok()?;
    parts.parse().ok()
}

async fn last_checkpoint(store: &dyn ObjectStore) -> Result<u64> {
    match store.get(&Path::from_iter([FOLDER, "_last_checkpoint"])).await {
        // It is a hint, which another writer may be replacing: without it the whole log is listed.
        Ok(found) => Ok(serde_json::from_slice::<LastCheckpoint>(&found.bytes().await?).map_or(0, |hint| hint.version)),
        Err(object_store::Error::NotFound { .. }) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

async fn read_checkpoint(store: &dyn ObjectStore, path: &Path, version: u64) -> Result<Vec<Line>> {
    let bytes = store.get(path).await?.bytes().await?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
    let roots = reader.schema().fields().iter().enumerate();
    let wanted: Vec<usize> =
        roots.filter(|(_, field)| COLUMNS.contains(&field.name().as_str())).map(|(index, _)| index).collect();
    let mask = ProjectionMask::roots(reader.parquet_schema(), wanted);
    let mut lines = Vec::new();
    for batch in reader.with_projection(mask).build()? {
        let mut json = LineDelimitedWriter::new(Vec::new());
        json.write(&batch?)?;
        json.finish()?;
        lines.extend(actions::parse(&json.into_inner(), version)?);
    }
    Ok(lines)
}
