//! Reads a log: its last checkpoint and the commits after it, version by version for readers that follow a table.

use std::collections::BTreeMap;

use asap_kernels::front_end::Flag;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::Value;
use url::Url;

use crate::delta::actions::{self, Line, LiveFile, Removed, Transaction};
use crate::delta::{FOLDER, LogState, commit_path, read_commit, unreadable};
use crate::location::{self, Unavailable};
use crate::objects::{self, existing, named};

const CONCURRENT_COMMITS: usize = 32;
const COLUMNS: [&str; 5] = ["txn", "add", "remove", "metaData", "protocol"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// The files of this version, and the changes after it.
    Snapshot(u64),
    Version(u64),
}

impl Since {
    fn version(self) -> u64 {
        match self {
            Self::Snapshot(version) | Self::Version(version) => version,
        }
    }
}

/// The current state of a log, and its changes since a version.
#[derive(Debug, Default)]
pub struct Followed {
    /// The newest state.
    pub state: LogState,
    /// The state at the requested version of [`Since::Snapshot`].
    pub snapshot: LogState,
    /// The versions after the requested one, ascending.
    pub later: Vec<Version>,
}

#[derive(Debug, Clone)]
pub struct Version {
    pub version: u64,
    pub added: Vec<LiveFile>,
    pub removed: Vec<Removed>,
    pub transactions: Vec<Transaction>,
}

impl Followed {
    /// Reads the log of the table at `url`, which is the root of `store`, and its changes since a version if requested;
    /// None if there is no table.
    pub async fn read(store: &dyn ObjectStore, url: &Url, since: Option<Since>) -> Result<Option<Self>> {
        let error = match read(store, since, true).await {
            Err(error)
                if !matches!(error.find_root(), DataFusionError::ObjectStore(_) | DataFusionError::External(_)) =>
            {
                error
            }
            read => return read.map_err(|error| unreadable(url, error)),
        };
        // A log that was not cleaned can be read without its checkpoints, which may be damaged.
        let mut whole = read(store, since, false).await.map_err(|_| unreadable(url, error))?;
        whole.iter_mut().for_each(|whole| whole.state.has_damaged_checkpoint = true);
        Ok(whole)
    }

    /// Keeps the state as the snapshot if it is at the requested version.
    fn keep_snapshot(&mut self, since: Option<Since>) {
        if since == Some(Since::Snapshot(self.state.version)) {
            self.snapshot = self.state.clone();
        }
    }
}

impl Version {
    fn of(version: u64, lines: &[Line]) -> Self {
        Self {
            version,
            added: lines.iter().filter_map(|line| line.add.clone()).collect(),
            removed: lines.iter().filter_map(|line| line.remove.clone()).collect(),
            transactions: lines.iter().filter_map(|line| line.txn.clone()).collect(),
        }
    }
}

async fn read(store: &dyn ObjectStore, since: Option<Since>, uses_checkpoints: bool) -> Result<Option<Followed>> {
    let hint = if uses_checkpoints { last_checkpoint(store).await? } else { 0 };
    let from = match since {
        None => hint,
        Some(Since::Snapshot(version)) if hint <= version => hint,
        // An older checkpoint is needed.
        Some(Since::Snapshot(_)) => 0,
        Some(Since::Version(version)) => hint.min(version + 1),
    };
    let mut found = list(store, from).await?;
    if found.commits.is_empty() && found.checkpoints.is_empty() && from > 0 {
        found = list(store, 0).await?;
    }
    if !uses_checkpoints {
        found.checkpoints.clear();
    }
    let Some(last) = found.commits.last().copied().max(found.last_checkpoint(u64::MAX)) else { return Ok(None) };
    let after = since.map(Since::version);
    if let Some(after) = after.filter(|after| *after > last) {
        return exec_err!(
            "its newest version is {last}, but version {after} was already read: it is another table, or it was \
             created again; start again (a run with {}, a feed or a training without its resume state)",
            Flag("--new-generation")
        );
    }
    let base = found.last_checkpoint(match since {
        Some(Since::Snapshot(version)) => version,
        _ => u64::MAX,
    });
    let first = base.map_or(0, |version| version + 1);
    let begin = after.map_or(first, |after| first.min(after + 1));

    let mut followed = Followed::default();
    if let Some((version, files)) = base.and_then(|base| Some((base, found.checkpoints.get(&base)?))) {
        for path in &files.paths {
            followed.state.version = version;
            read_checkpoint(store, path, version).await?.into_iter().for_each(|line| followed.state.apply(line));
        }
        followed.keep_snapshot(since);
    }
    let commits = futures::stream::iter(begin..=last).map(async |version| (version, read_commit(store, version).await));
    let commits: Vec<_> = commits.buffered(CONCURRENT_COMMITS).collect().await;
    for (version, commit) in commits {
        let Some(lines) = commit? else { return missing(store, &found, version, since, last).await };
        if after.is_some_and(|after| version > after) {
            followed.later.push(Version::of(version, &lines));
        }
        if version >= first {
            followed.state.version = version;
            lines.into_iter().for_each(|line| followed.state.apply(line));
            followed.keep_snapshot(since);
        }
    }
    followed.state.recent.clear();
    if followed.state.metadata.schema_string.is_empty() || followed.state.protocol.min_reader_version == 0 {
        return exec_err!("it does not define the columns of the table");
    }
    Ok(Some(followed))
}

async fn missing<T>(
    store: &dyn ObjectStore,
    found: &LogFiles,
    version: u64,
    since: Option<Since>,
    last: u64,
) -> Result<T> {
    let listed = list(store, 0).await?.commits;
    if listed.contains(&version) {
        let what = format!("version {version} is listed, but was not found");
        return Err(location::failed(&what, DataFusionError::External(Box::new(Unavailable))));
    }
    let oldest = listed.first().copied().unwrap_or(last);
    match since {
        Some(since) if oldest > version => exec_err!(
            "version {} is needed to resume, but the oldest remaining version is {oldest}: the changes in between \
             are lost; start again (a run with {}, a feed or a training without its resume state)",
            match since {
                Since::Snapshot(begun) => begun,
                Since::Version(_) => version,
            },
            Flag("--new-generation")
        ),
        _ if found.has_newer_checkpoints => {
            exec_err!(
                "version {version} is missing, and its checkpoints use the feature v2Checkpoint, which is not supported"
            )
        }
        _ => exec_err!(
            "version {version} is missing; the newest version is {last}. Restore its file in _delta_log, or fill a new output"
        ),
    }
}

#[derive(Default)]
struct LogFiles {
    commits: Vec<u64>,
    checkpoints: BTreeMap<u64, Checkpoint>,
    has_newer_checkpoints: bool,
}

impl LogFiles {
    fn last_checkpoint(&self, until: u64) -> Option<u64> {
        self.checkpoints.range(..=until).rev().find(|(_, files)| files.is_whole()).map(|(version, _)| *version)
    }
}

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

async fn list(store: &dyn ObjectStore, from: u64) -> Result<LogFiles> {
    let folder = Path::from(FOLDER);
    let offset = Path::from_iter([FOLDER, &format!("{from:020}")]);
    // A name that is no path is no file of a log.
    let listed = named(store.list_with_offset(Some(&folder), &offset)).map_ok(|file| file.location);
    let mut paths: Vec<Path> = existing(listed.try_collect().await)?.unwrap_or_default();
    paths.sort();
    let mut found = LogFiles::default();
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
        } else if rest.starts_with("checkpoint.") {
            found.has_newer_checkpoints = true;
        }
    }
    Ok(found)
}

/// The number of files of a checkpoint, from the name of one of them after the version: `checkpoint.parquet`, or
/// `checkpoint.<part>.<parts>.parquet`. V2 checkpoints are ignored: tables that need them are refused, and otherwise
/// the earlier commits still exist.
fn checkpoint_parts(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix("checkpoint.")?;
    if inner == "parquet" {
        return Some(1);
    }
    let (part, parts) = inner.strip_suffix(".parquet")?.split_once('.')?;
    part.parse::<usize>().ok()?;
    parts.parse().ok()
}

/// The version of the last checkpoint by the hint to it, so that the beginning of the log need not be listed.
async fn last_checkpoint(store: &dyn ObjectStore) -> Result<u64> {
    // Another writer may be replacing this hint. Without it the whole log is listed.
    let hint = objects::read(store, &Path::from_iter([FOLDER, "_last_checkpoint"])).await?;
    Ok(hint.and_then(|hint| serde_json::from_slice::<Value>(&hint).ok()?["version"].as_u64()).unwrap_or(0))
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
