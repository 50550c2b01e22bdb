//! Written slices of replaced files that wait for the other slices of their file, to be committed together. Their
//! receipts are stored next to the output, so that a killed run can resume.

use datafusion::common::{Result, exec_datafusion_err};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};

use crate::run::output::finished_slice::{Finished, Written};
use crate::run::output::ledger::SliceName;
use crate::run::output::receipt::Receipt;

/// The folder of the receipts, in the folder of asap next to a table.
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

/// Stores the receipts of slices whose shards are written.
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

/// The staged slices of the content `whole` that replace `before`, without overlaps.
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

/// Removes the receipts of a committed content of a file.
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
