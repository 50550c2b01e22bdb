//! Shards that are missing from the store or have a different size from the one in the log, and the input files whose rows they had. A
//! run deletes the remaining rows of these files in one commit and processes the files again.

use std::collections::{BTreeSet, HashSet};

use datafusion::common::Result;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::delta::{LiveFile, Log};
use crate::objects::existing;
use crate::run::ledger::{ATTEMPT, Ledger, file_key};
use crate::run::output::rejects::ShardPath;

#[derive(Debug, Clone, Default)]
pub struct Missing {
    pub shards: HashSet<String>,
    /// The input files that may have had rows in them.
    pub files: BTreeSet<String>,
}

impl Missing {
    /// Compares the logs of an output and of its rejects with the objects in the store.
    pub(crate) async fn find(table: Option<&Log>, rejects: Option<&Log>, ledger: &Ledger) -> Result<Self> {
        let mut missing = Self::default();
        if let Some(log) = table {
            for Lacked { shard, .. } in lacked(log).await? {
                let may_have_rows_of = shard.may_have_rows_of();
                let held = ledger.files().filter(|(path, _)| may_have_rows_of(path)).map(|(path, _)| path.clone());
                missing.files.extend(held);
                missing.shards.insert(shard.path);
            }
        }
        if let Some(log) = rejects {
            for Lacked { shard, .. } in lacked(log).await? {
                let key = ShardPath::parse(&shard.path).map(|path| path.file);
                let held = ledger.files().map(|(path, _)| path).filter(|path| key.as_ref() == Some(&file_key(path)));
                missing.files.extend(held.cloned());
                missing.shards.insert(shard.path);
            }
        }
        Ok(missing)
    }
}

/// A shard that is missing or has a different size from the one in the log.
pub(crate) struct Lacked {
    pub shard: LiveFile,
    /// Its bytes, if it exists.
    pub found: Option<u64>,
}

pub(crate) async fn lacked(log: &Log) -> Result<Vec<Lacked>> {
    let mut doubtful: HashSet<&String> = log.state.files.keys().collect();
    if doubtful.is_empty() {
        return Ok(vec![]);
    }
    // Runs write all their shards to folders with this prefix, so one listing usually finds them all.
    let mut listed = log.store.list_with_offset(None, &Path::from(ATTEMPT.trim_end_matches('-')));
    while let Some(object) = existing(listed.try_next().await)?.flatten() {
        let path = object.location.to_string();
        if log.state.files.get(&path).is_some_and(|shard| shard.size == object.size) {
            doubtful.remove(&path);
        }
    }
    let mut lacked = Vec::new();
    for shard in doubtful.into_iter().filter_map(|path| log.state.files.get(path)) {
        let found = existing(log.store.head(&shard.location()?).await)?.map(|object| object.size);
        if found != Some(shard.size) {
            lacked.push(Lacked { shard: shard.clone(), found });
        }
    }
    lacked.sort_by(|one, other| one.shard.path.cmp(&other.shard.path));
    Ok(lacked)
}
