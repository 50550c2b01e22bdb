//! Uncommitted shards of an output: which still exist, which wait for a later run, and which are deleted.

use std::collections::HashSet;
use std::time::Duration;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};

use super::Output;
use crate::asap_folder::join;
use crate::delta::store_of;
use crate::objects;
use crate::run::ledger::{ATTEMPT, Before, SliceName};
use crate::run::output::finished_slice::Finished;
use crate::run::output::missing::Missing;
use crate::run::output::receipt::Receipt;

const LOOKS_AT_ONCE: usize = 16;

/// The folder of staged receipts, in the folder of asap next to a table.
pub(crate) const STAGED: &str = "staged";

#[derive(Debug, Serialize, Deserialize)]
struct Staged {
    attempt: String,
    before: String,
    receipt: Receipt,
}

fn staged_folder(slice: &SliceName) -> Path {
    let content = format!("{}-{}.{}", slice.generation, slice.file_key(), slice.content_key());
    Path::from_iter([STAGED, &content])
}

impl Output {
    /// Divides finished slices into those that still have their shards and those that do not. Only slices older than
    /// `age` are checked.
    pub(crate) async fn by_shards(
        &self,
        finished: Vec<Finished>,
        age: Duration,
    ) -> Result<(Vec<Finished>, Vec<Finished>)> {
        if finished.iter().all(|finished| !finished.is_older_than(age)) {
            return Ok((finished, vec![]));
        }
        let (output, rejects) = (store_of(&self.url)?, store_of(&self.rejects_url()?)?);
        let looked = stream::iter(finished.into_iter().map(async |finished| {
            let is_young = !finished.is_older_than(age);
            let is_there = is_young || finished.has_its_shards(output.as_ref(), rejects.as_ref()).await?;
            Ok::<_, DataFusionError>((finished, is_there))
        }));
        let looked: Vec<_> = looked.buffered(LOOKS_AT_ONCE).try_collect().await?;
        let (there, gone): (Vec<_>, Vec<_>) = looked.into_iter().partition(|(_, is_there)| *is_there);
        let slices = |looked: Vec<(Finished, bool)>| looked.into_iter().map(|(finished, _)| finished).collect();
        Ok((slices(there), slices(gone)))
    }

    /// Stores the receipts of written slices of replaced files, next to the output. They wait for the other slices of
    /// their file, to be committed together, so that a killed run can resume.
    pub async fn stage(&mut self, finished: &mut [Finished]) -> Result<()> {
        let store = store_of(&self.asap_folder)?;
        for finished in finished.iter_mut().filter(|finished| finished.begun_at.is_some()) {
            let SliceName { start, end, .. } = finished.slice;
            let staged = Staged {
                attempt: finished.attempt.to_string(),
                before: finished.before.to_string(),
                receipt: finished.receipt.clone(),
            };
            let text = serde_json::to_vec(&staged).map_err(|error| {
                exec_datafusion_err!("the receipt of {} cannot be written: {error}", finished.slice)
            })?;
            let name = format!("{start:012}-{end:012}-{}.json", finished.attempt);
            store.put(&staged_folder(&finished.slice).join(name), PutPayload::from(text)).await?;
            finished.begun_at = None;
        }
        let shards =
            finished.iter().flat_map(|finished| finished.receipt.output.iter().chain(&finished.receipt.rejects));
        self.staged.extend(shards.map(|shard| shard.path.clone()));
        Ok(())
    }

    /// The staged slices of a content that replace `before`, without overlaps, whose shards still exist.
    pub async fn staged(&self, whole: &SliceName, before: &Before) -> Result<Vec<Finished>> {
        let store = store_of(&self.asap_folder)?;
        let mut listed = objects::list(store.as_ref(), &staged_folder(whole)).await?;
        listed.sort_by(|one, other| one.location.cmp(&other.location));
        let mut found: Vec<Finished> = Vec::new();
        for object in listed {
            // Unless another run has committed the file.
            let Some(bytes) = objects::read(store.as_ref(), &object.location).await? else { continue };
            let staged: Staged = serde_json::from_slice(&bytes)
                .map_err(|error| exec_datafusion_err!("the receipt {} cannot be read: {error}", object.location))?;
            let slice: SliceName = staged.receipt.slice.parse()?;
            let end = found.last().map_or(0, |last| last.slice.end);
            if slice.is_of_content_of(whole) && staged.before == before.to_string() && slice.start >= end {
                found.push(Finished {
                    slice,
                    before: before.clone(),
                    attempt: staged.attempt.parse()?,
                    receipt: staged.receipt,
                    begun_at: None,
                });
            }
        }
        Ok(self.by_shards(found, Duration::ZERO).await?.0)
    }

    /// Removes the staged receipts of a file whose slices are committed, here or by another run.
    pub(crate) async fn unstage(&self, slice: &SliceName) -> Result<()> {
        let store = store_of(&self.asap_folder)?;
        for object in objects::list(store.as_ref(), &staged_folder(slice)).await? {
            objects::delete(store.as_ref(), &object.location).await?;
        }
        Ok(())
    }

    pub(crate) async fn find_missing(&mut self) -> Result<&Missing> {
        self.missing = Missing::find(self.table.as_ref(), self.rejects.as_ref(), &self.ledger).await?;
        Ok(&self.missing)
    }

    /// Deletes the shards of this attempt that the logs do not name: those of failed slices, and of slices that another
    /// run did first. After a commit with an unknown outcome nothing is deleted.
    pub(crate) async fn sweep(&mut self) -> Result<()> {
        if self.in_doubt {
            return Ok(());
        }
        let folder = Path::from(format!("{ATTEMPT}{}", self.attempt));
        for (root, log) in
            [(self.url.clone(), &mut self.table), (join(&self.asap_folder, "rejects/")?, &mut self.rejects)]
        {
            let store = store_of(&root)?;
            let listed = objects::list(store.as_ref(), &folder).await?;
            if listed.is_empty() {
                continue;
            }
            let mut named = HashSet::new();
            if let Some(log) = log {
                log.refresh().await?;
                // Paths are URL-encoded only in the log.
                let paths = log.state.files.keys().chain(log.state.removed.keys());
                named.extend(paths.filter_map(|path| Path::from_url_path(path).ok()));
            }
            named.extend(self.staged.iter().filter_map(|path| Path::from_url_path(path).ok()));
            for object in listed.iter().filter(|object| !named.contains(&object.location)) {
                store.delete(&object.location).await?;
            }
        }
        self.follow();
        Ok(())
    }
}
