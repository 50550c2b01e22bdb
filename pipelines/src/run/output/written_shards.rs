//! Uncommitted shards of an output: which still exist, which wait for a later run, and which are deleted.

use std::collections::HashSet;
use std::time::Duration;

use datafusion::common::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::Output;
use crate::beside::join;
use crate::delta::store_of;
use crate::run::output::finished_slice::Finished;
use crate::run::output::ledger::{ATTEMPT, Before, SliceName};
use crate::run::output::missing::Missing;
use crate::run::output::staged;

const LOOKS_AT_ONCE: usize = 16;

impl Output {
    /// Divides finished slices into those that still have their shards and those that do not. Only slices older than
    /// `age` are checked.
    pub(crate) async fn by_shards(
        &self,
        finished: Vec<Finished>,
        age: Duration,
    ) -> Result<(Vec<Finished>, Vec<Finished>)> {
        if finished.iter().all(|finished| !finished.written.is_older_than(age)) {
            return Ok((finished, vec![]));
        }
        let (output, rejects) = (store_of(&self.url)?, store_of(&self.rejects_url()?)?);
        let looked = stream::iter(finished.into_iter().map(async |finished| {
            let is_young = !finished.written.is_older_than(age);
            let is_there = is_young || finished.has_its_shards(output.as_ref(), rejects.as_ref()).await?;
            Ok::<_, DataFusionError>((finished, is_there))
        }));
        let looked: Vec<_> = looked.buffered(LOOKS_AT_ONCE).try_collect().await?;
        let (there, gone): (Vec<_>, Vec<_>) = looked.into_iter().partition(|(_, is_there)| *is_there);
        let slices = |looked: Vec<(Finished, bool)>| looked.into_iter().map(|(finished, _)| finished).collect();
        Ok((slices(there), slices(gone)))
    }

    /// Stores the receipts of slices that wait for others of their file, for the run that commits them.
    pub async fn stage(&mut self, finished: &mut [Finished]) -> Result<()> {
        staged::keep(store_of(&self.beside)?.as_ref(), finished).await?;
        let shards =
            finished.iter().flat_map(|finished| finished.receipt.output.iter().chain(&finished.receipt.rejects));
        self.staged.extend(shards.map(|shard| shard.path.clone()));
        Ok(())
    }

    /// The slices of a replaced file that earlier runs staged and whose shards still exist.
    pub async fn staged(&self, whole: &SliceName, before: &Before) -> Result<Vec<Finished>> {
        let found = staged::find(store_of(&self.beside)?.as_ref(), whole, &before.to_string()).await?;
        Ok(self.by_shards(found, Duration::ZERO).await?.0)
    }

    /// Removes the staged slices of a file whose slices are committed, here or by another run.
    pub(crate) async fn unstage(&self, slice: &SliceName) -> Result<()> {
        staged::remove(store_of(&self.beside)?.as_ref(), slice).await
    }

    pub(crate) async fn find_missing(&mut self) -> Result<&Missing> {
        self.missing = Missing::find(self.table.as_ref(), self.rejects.as_ref(), &self.ledger).await?;
        Ok(&self.missing)
    }

    /// The missing shards, as of [`Self::find_missing`].
    pub fn missing(&self) -> &Missing {
        &self.missing
    }

    /// Deletes the shards of this attempt that the logs do not name: those of failed slices, and of slices that another
    /// run did first. After a commit with an unknown outcome nothing is deleted.
    pub(crate) async fn sweep(&mut self) -> Result<()> {
        if self.in_doubt {
            return Ok(());
        }
        let folder = Path::from(format!("{ATTEMPT}{}", self.attempt));
        for (root, log) in [(self.url.clone(), &mut self.table), (join(&self.beside, "rejects/")?, &mut self.rejects)] {
            let store = store_of(&root)?;
            let listed: Vec<_> = match store.list(Some(&folder)).try_collect().await {
                Err(object_store::Error::NotFound { .. }) => continue,
                listed => listed?,
            };
            if listed.is_empty() {
                continue;
            }
            let mut named = HashSet::new();
            if let Some(log) = log {
                log.refresh().await?;
                // Paths are URL-encoded only in the log.
                let paths = log.state().files.keys().chain(log.state().removed.keys());
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
