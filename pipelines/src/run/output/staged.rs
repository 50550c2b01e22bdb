//! Slices of replaced files that are written and wait for the others of their file, with which they are committed. Their receipts lie
//! next to the output, so that a run that is killed resumes.

use datafusion::common::{Result, exec_datafusion_err};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};

use crate::run::output::finished_slice::{Finished, Written};
use crate::run::output::ledger::SliceName;
use crate::run::output::receipt::Receipt;

/// The folder of the receipts, below that of what asap keeps next to a table.
pub const FOLDER: &str = "staged";

#[derive(Debug, Serialize, Deserialize)]
struct Staged {
    attempt: String,
    before: String,
    receipt: Receipt,
}

fn folder(slice: &SliceName) -> Path {
    let content = format!("{}-{}.{}", slice.generation, slice.file_key(), slice.content_key());
    Path::from_iter([FOLDER, &content])
}

/// Keeps the receipts of slices whose shards are written.
///
/// # Errors
/// If the store fails.
pub async fn keep(store: &dyn ObjectStore, finished: &mut [Finished]) -> Result<()> {
    for finished in finished.iter_mut().filter(|finished| finished.written != Written::Staged) {
        let SliceName { start, end, .. } = finished.slice;
        let staged = Staged {
            attempt: finished.attempt.to_string(),
            before: finished.before.to_string(),
            receipt: finished.receipt.clone(),
        };
        let text = serde_json::to_vec(&staged)
            .map_err(|error| exec_datafusion_err!("the receipt of {} cannot be written: {error}", finished.slice))?;
        let name = format!("{start:012}-{end:012}-{}.json", finished.attempt);
        store.put(&folder(&finished.slice).join(name), PutPayload::from(text)).await?;
        finished.written = Written::Staged;
    }
    Ok(())
}

/// The staged slices of the content that `whole` names, none of which overlap. They replace what `before` says.
///
/// # Errors
/// If the store fails, or if a receipt cannot be read.
pub async fn find(store: &dyn ObjectStore, whole: &SliceName, before: &str) -> Result<Vec<Finished>> {
    let mut listed: Vec<_> = match store.list(Some(&folder(whole))).try_collect().await {
        Err(object_store::Error::NotFound { .. }) => vec![],
        listed => listed?,
    };
    listed.sort_by(|one: &object_store::ObjectMeta, other| one.location.cmp(&other.location));
    let mut found: Vec<Finished> = Vec::new();
    for object in listed {
        let bytes = match store.get(&object.location).await {
            Ok(object) => object.bytes().await?,
            // Another run has committed the file.
            Err(object_store::Error::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let staged: Staged = serde_json::from_slice(&bytes)
            .map_err(|error| exec_datafusion_err!("the receipt {} cannot be read: {error}", object.location))?;
        let slice: SliceName = staged.receipt.slice.parse()?;
        let end = found.last().map_or(0, |last| last.slice.end);
        if slice.is_of_content_of(whole) && staged.before == before && slice.start >= end {
            found.push(Finished {
                slice,
                before: staged.before.parse()?,
                attempt: staged.attempt.parse()?,
                receipt: staged.receipt,
                written: Written::Staged,
            });
        }
    }
    Ok(found)
}

/// Removes the receipts of a content of a file that is committed.
///
/// # Errors
/// If the store fails.
pub async fn remove(store: &dyn ObjectStore, slice: &SliceName) -> Result<()> {
    let listed: Vec<_> = match store.list(Some(&folder(slice))).try_collect().await {
        Err(object_store::Error::NotFound { .. }) => return Ok(()),
        listed => listed?,
    };
    for object in listed {
        match store.delete(&object.location).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
