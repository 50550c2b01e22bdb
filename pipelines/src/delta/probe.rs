//! Checks that a folder can have a Delta table, by doing what a commit does before any work is done.

use datafusion::common::{DataFusionError, Result, config_datafusion_err, exec_datafusion_err};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use crate::delta::FOLDER;
use crate::{location, objects};

/// Prefix of the names of probes. Log entries begin with a digit, which sorts after it. So readers, which list from a
/// version on, do not see a probe that a killed process left.
pub const PROBE: &str = ".asap-probe-";

const FIRST: &[u8] = b"first";
const SECOND: &[u8] = b"second";

/// Checks that commits to a Delta table are safe: an object can be written to its log, a second writer of the same
/// object is refused and changes nothing, and the object can be removed. `store` is rooted at the folder of the table,
/// and `folder` is its name for messages. An error says what does not hold and what to do.
pub async fn check_output(store: &dyn ObjectStore, folder: &str) -> Result<()> {
    let probe = Path::from_iter([FOLDER, &format!("{PROBE}{}", uuid::Uuid::new_v4())]);
    let log = format!("the log of {folder}");
    let checked = check_create(store, &log, &probe).await;
    let removed = objects::delete(store, &probe).await;
    checked?;
    let advice = "grant delete access, since a failed run removes what it wrote";
    removed.map_err(|error| failed(format!("{log} can be written, but nothing can be removed there"), error, advice))
}

async fn check_create(store: &dyn ObjectStore, log: &str, probe: &Path) -> Result<()> {
    match create(store, probe, FIRST).await {
        Ok(()) => {}
        // A reply may be lost and the request retried; then the existing object is our own.
        Err(error @ (Error::AlreadyExists { .. } | Error::Precondition { .. })) => {
            if !holds_first(store, log, probe).await? {
                return Err(not_written(log, error));
            }
        }
        Err(error) => {
            let is_forbidden = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. });
            if is_forbidden || store.put(probe, PutPayload::from_static(FIRST)).await.is_err() {
                return Err(not_written(log, error));
            }
            // A request that only failed now says nothing about conditional creates.
            if !is_refused(&create(store, probe, SECOND).await) {
                return Err(refused(log, &error));
            }
        }
    }
    match create(store, probe, SECOND).await {
        Ok(()) => return Err(ignored(log)),
        second if is_refused(&second) => {}
        Err(error) => return Err(not_written(log, error)),
    }
    if holds_first(store, log, probe).await? { Ok(()) } else { Err(ignored(log)) }
}

async fn holds_first(store: &dyn ObjectStore, log: &str, probe: &Path) -> Result<bool> {
    let held = async { store.get(probe).await?.bytes().await };
    match held.await {
        Ok(held) => Ok(held == FIRST),
        Err(error) => {
            let what = format!("{log} can be written but not read");
            Err(failed(what, error, "grant read access, or choose another output"))
        }
    }
}

async fn create(store: &dyn ObjectStore, probe: &Path, content: &'static [u8]) -> object_store::Result<()> {
    store.put_opts(probe, PutPayload::from_static(content), PutMode::Create.into()).await.map(drop)
}

fn is_refused(second: &object_store::Result<()>) -> bool {
    matches!(second, Err(Error::AlreadyExists { .. } | Error::Precondition { .. }))
}

fn not_written(log: &str, error: Error) -> DataFusionError {
    let advice = match log.contains("://") {
        true => "create the bucket, grant write access, or choose another output",
        false => {
            "check that the folder can be created and written and that the disk has room, or choose another output"
        }
    };
    failed(format!("cannot write to {log}"), error, advice)
}

fn failed(what: String, error: Error, advice: &str) -> DataFusionError {
    let error = DataFusionError::from(error);
    match location::is_unavailable(&error) {
        true => location::failed(&what, error),
        false => exec_datafusion_err!("{what}: {}; {advice}", error.strip_backtrace()),
    }
}

fn ignored(log: &str) -> DataFusionError {
    config_datafusion_err!(
        "the store of {log} ignores If-None-Match: a second writer could replace the object of the first, so \
         commits of two runs could be lost; use a store that supports it (Amazon S3, Google Cloud Storage, Azure, \
         Cloudflare R2, a newer version of this server) or a local disk"
    )
}

fn refused(log: &str, error: &Error) -> DataFusionError {
    let advice = match error {
        Error::Generic { store: "LocalFileSystem", .. } => {
            "the disk refuses hard links, as some mounted disks do; write to another disk and copy the table"
        }
        _ => {
            "the store must support If-None-Match, as Amazon S3, Google Cloud Storage, Azure and Cloudflare R2 do; unset \
             AWS_CONDITIONAL_PUT, or choose another store"
        }
    };
    config_datafusion_err!(
        "{log} can be written, but objects cannot be created there on condition that they do not exist, which commits need: \
         {error}; {advice}"
    )
}
