//! Removes objects that no log of an output names: removed shards, and leftovers of killed attempts.
//!
//! Only objects of asap are removed: those in the folders of attempts, those named by a merge, probes of the log, and
//! those that a log lists as removed.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use datafusion::common::{Result, exec_datafusion_err};
use deltalake_core::checkpoints::cleanup_metadata;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use serde::Serialize;

use crate::corpus::files::is_hidden;
use crate::delta::{self, Log, store_of};
use crate::objects::{self, existing};
use crate::outputs::{inside, open};
use crate::run::ledger::ATTEMPT;
use crate::run::output::written_shards::STAGED;
use crate::{answers, location};

/// The removed objects, or those that a dry run would remove.
#[derive(Debug, Default, Serialize)]
pub struct Vacuumed {
    /// Whether this was a dry run.
    pub dry_run: bool,
    pub objects: u64,
    pub bytes: u64,
    /// Paths of the objects; those of rejects are below `rejects/`.
    pub removed: Vec<String>,
    /// Removed log entries that were older than the retention of the table.
    pub log_entries: u64,
}

/// Removes objects older than `retain`, except live shards and shards removed within `retain`.
///
/// # Errors
/// If there is no output, or if the store fails. Objects removed until then stay removed.
pub async fn vacuum(location: &str, retain: Duration, dry_run: bool) -> Result<Vacuumed> {
    let now = SystemTime::now();
    let before = now.checked_sub(retain).ok_or_else(|| exec_datafusion_err!("the age {retain:?} is too large"))?;
    let mut output = open(location).await?;
    if !dry_run {
        output.tidy_rejects().await?;
    }
    let mut done = Vacuumed { dry_run, ..Vacuumed::default() };
    for (root, log, prefix) in
        [(output.url.clone(), output.table(), ""), (output.rejects_url()?, output.rejects(), "rejects/")]
    {
        let store = store_of(&root)?;
        for object in expired(store.as_ref(), log, before).await? {
            if !dry_run {
                objects::delete(store.as_ref(), &object.location).await?;
            }
            done.add(prefix, object.location.as_ref(), object.size);
        }
        if let (Some(log), false) = (log, dry_run) {
            let table = deltalake_core::open_table(log.url.clone()).await?;
            done.log_entries += cleanup_metadata(&table, None).await? as u64;
        }
    }
    let asap_folder = store_of(&output.asap_folder)?;
    let mut others = probes(asap_folder.as_ref(), &Path::from(answers::CACHE)).await?;
    others.extend(objects::list(asap_folder.as_ref(), &Path::from(STAGED)).await?);
    for other in others.iter().filter(|other| before >= SystemTime::from(other.last_modified)) {
        if !dry_run {
            asap_folder.delete(&other.location).await?;
        }
        done.add("", other.location.as_ref(), other.size);
    }
    if let Some(root) = location::local_path(&output.url) {
        for (path, bytes) in location::unfinished(&root, before)? {
            if !dry_run {
                std::fs::remove_file(&path)?;
                path.ancestors().skip(1).take_while(|folder| std::fs::remove_dir(folder).is_ok()).for_each(drop);
            }
            done.add("", &path.strip_prefix(&root).unwrap_or(&path).to_string_lossy(), bytes);
        }
    }
    Ok(done)
}

impl Vacuumed {
    fn add(&mut self, prefix: &str, path: &str, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
        self.removed.push(format!("{prefix}{path}"));
    }
}

async fn expired(store: &dyn ObjectStore, log: Option<&Log>, before: SystemTime) -> Result<Vec<ObjectMeta>> {
    let before = DateTime::<Utc>::from(before);
    let mut needed = HashSet::new();
    let mut gone = Vec::new();
    if let Some(log) = log {
        needed.extend(log.state.files.keys().filter_map(|path| inside(path)));
        for (path, removed) in &log.state.removed {
            let Some(path) = inside(path) else { continue };
            if removed.deletion_timestamp.unwrap_or(0) > before.timestamp_millis() {
                needed.insert(path);
            } else {
                gone.push(path);
            }
        }
    }
    let mut found = left_by_the_killed(store).await?;
    for path in gone.iter().filter(|path| !is_ours(path)) {
        // A store with a prefix returns the full path.
        let object = existing(store.head(path).await)?;
        found.extend(object.map(|object| ObjectMeta { location: path.clone(), ..object }));
    }
    found.retain(|object| !needed.contains(&object.location) && object.last_modified <= before);
    Ok(found)
}

/// Objects that attempts and merges wrote, and probes of logs, including those that a log names.
async fn left_by_the_killed(store: &dyn ObjectStore) -> Result<Vec<ObjectMeta>> {
    let mut found = Vec::new();
    let mut folders = vec![Path::default()];
    while let Some(folder) = folders.pop() {
        let Some(listed) = existing(store.list_with_delimiter(Some(&folder)).await)? else { continue };
        found.extend(listed.objects.into_iter().filter(|object| is_ours(&object.location)));
        // Skips the folders next to the table, which may have many answers.
        let is_hidden = |folder: &Path| folder.filename().is_some_and(is_hidden);
        for folder in listed.common_prefixes {
            if folder.as_ref().starts_with(ATTEMPT) {
                found.extend(objects::list(store, &folder).await?);
            } else if folder.as_ref() == delta::FOLDER {
                found.extend(probes(store, &folder).await?);
            } else if !is_hidden(&folder) {
                folders.push(folder);
            }
        }
    }
    Ok(found)
}

async fn probes(store: &dyn ObjectStore, folder: &Path) -> Result<Vec<ObjectMeta>> {
    let mut listed = objects::list(store, folder).await?;
    listed.retain(|object| is_ours(&object.location));
    Ok(listed)
}

/// Whether asap named an object: shards of attempts, merged shards, and probes.
fn is_ours(path: &Path) -> bool {
    let name = path.filename().unwrap_or_default();
    let is_merged = || name.starts_with("part-") && name.ends_with(".parquet");
    path.as_ref().starts_with(ATTEMPT) || is_merged() || name.starts_with(delta::PROBE)
}
