//! Whether a folder can hold a Delta table: asked of the store by doing what a commit does, before any work is done.

use datafusion::common::{DataFusionError, Result, config_datafusion_err, exec_datafusion_err};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use crate::delta::FOLDER;
use crate::location;

/// What the names of probes begin with. In a log the names that mean something begin with a digit; these sort before
/// them, so that readers, who list from a version on, do not even see one that a killed process left.
pub const PROBE: &str = ".asap-probe-";

const FIRST: &[u8] = b"first";
const SECOND: &[u8] = b"second";

/// Checks that commits to a Delta table are safe, where `store` is rooted at the table's folder and `folder` says which
/// that is: that an object can be written to its log, that a second writer of the same object is refused and changes
/// nothing, and that the object can be removed again.
///
/// # Errors
/// If one of these does not hold; the message says which and what to do.
pub async fn check_output(store: &dyn ObjectStore, folder: &str) -> Result<()> {
    let probe = Path::from_iter([FOLDER, &format!("{PROBE}{}", uuid::Uuid::new_v4())]);
    let log = format!("the log of {folder}");
    let checked = check_create(store, &log, &probe).await;
    let removed = match store.delete(&probe).await {
        Err(Error::NotFound { .. }) => Ok(()),
        removed => removed,
    };
    checked?;
    removed.map_err(|error| {
        exec_datafusion_err!(
            "{log} can be written, but nothing can be removed there: {error}; allow it, a run removes what it wrote when it \
             fails"
        )
    })
}

async fn check_create(store: &dyn ObjectStore, log: &str, probe: &Path) -> Result<()> {
    match create(store, probe, FIRST).await {
        Ok(()) => {}
        // A reply can be lost and the request sent again; then what is there is our own.
        Err(error @ (Error::AlreadyExists { .. } | Error::Precondition { .. })) => {
            if !holds_first(store, log, probe).await? {
                return Err(not_written(log, error));
            }
        }
        Err(error) => return Err(not_created(store, log, probe, error).await),
    }
    match create(store, probe, SECOND).await {
        Ok(()) => return Err(ignored(log)),
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
        Err(error) => return Err(not_written(log, error)),
    }
    if holds_first(store, log, probe).await? { Ok(()) } else { Err(ignored(log)) }
}

async fn holds_first(store: &dyn ObjectStore, log: &str, probe: &Path) -> Result<bool> {
    let held = async { store.get(probe).await?.bytes().await };
    match held.await {
        Ok(held) => Ok(held == FIRST),
        Err(error) => Err(exec_datafusion_err!("what was written to {log} cannot be read back: {error}")),
    }
}

async fn create(store: &dyn ObjectStore, probe: &Path, content: &'static [u8]) -> object_store::Result<()> {
    store.put_opts(probe, PutPayload::from_static(content), PutMode::Create.into()).await.map(drop)
}

/// Why an object could not be created: if one can be written without a condition, and that is not what was forbidden,
/// it is the condition.
async fn not_created(store: &dyn ObjectStore, log: &str, probe: &Path, error: Error) -> DataFusionError {
    let is_forbidden = matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. });
    if !is_forbidden && store.put(probe, PutPayload::from_static(FIRST)).await.is_ok() {
        return refused(log, &error);
    }
    not_written(log, error)
}

fn not_written(log: &str, error: Error) -> DataFusionError {
    let error = DataFusionError::from(error);
    if location::is_unavailable(&error) {
        return error;
    }
    exec_datafusion_err!(
        "cannot write to {log}: {}; create the bucket, allow writing, or choose another output",
        error.strip_backtrace()
    )
}

fn ignored(log: &str) -> DataFusionError {
    config_datafusion_err!(
        "the store of {log} ignores If-None-Match: it let a second writer replace what the first had written, so that \
         commits of two runs could be lost; use a store that honours it (Amazon S3, Google Cloud Storage, Azure, \
         Cloudflare R2, a newer version of this server) or a local disk"
    )
}

fn refused(log: &str, error: &Error) -> DataFusionError {
    let advice = match error {
        Error::Generic { store: "LocalFileSystem", .. } => {
            "the disk refuses hard links, as some mounted ones do; write to another disk and copy the table"
        }
        _ => {
            "the store must honour If-None-Match, as Amazon S3, Google Cloud Storage, Azure and Cloudflare R2 do; unset \
             AWS_CONDITIONAL_PUT, or choose another store"
        }
    };
    config_datafusion_err!(
        "{log} can be written, but an object cannot be created there only where there is none, which commits need: \
         {error}; {advice}"
    )
}
