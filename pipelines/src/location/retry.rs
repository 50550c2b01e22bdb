//! How long a request to a store is retried, and which errors mean that a store is unavailable.

use std::error::Error;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use asap_hub::HubError;
use asap_kernels::front_end::either;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::{BackoffConfig, RetryConfig};

static TIMEOUT: AtomicU64 = AtomicU64::new(60_000);

/// Marks an error as caused by an unavailable store. The error's text has the details.
#[derive(Debug, thiserror::Error)]
#[error("the store is unavailable")]
pub(crate) struct Unavailable;

/// Sets how long a request is retried if a store answers 5xx or 429, or does not answer. Applies to stores opened
/// later, and to the Hugging Face Hub.
pub fn set_retry_timeout(timeout: Duration) {
    asap_hub::set_patience(timeout);
    TIMEOUT.store(timeout.as_millis().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// How long a request is retried.
pub fn retry_timeout() -> Duration {
    Duration::from_millis(TIMEOUT.load(Ordering::Relaxed))
}

/// Retries until the timeout: first after 0.1 s, then with waits of up to 5 s.
pub(super) fn patient() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(5),
        ..BackoffConfig::default()
    };
    // Only the timeout ends retries: `max_retries` is never reached.
    RetryConfig { backoff, max_retries: 10_000, retry_timeout: retry_timeout() }
}

/// What to do about an error that may be gone when the same command runs again: a store is unavailable or another request
/// was changing the object, or a disk is full. None if repeating does not help: the store refuses access, an object does
/// not exist, or the input is wrong. The error itself decides, not the place where it occurred.
pub fn advice(error: &(dyn Error + 'static)) -> Option<&'static str> {
    causes(error).find_map(advice_of)
}

/// An error, and what caused it.
pub(crate) fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Whether a local disk surely did not write: it is full or read-only, or denies access.
pub(crate) fn is_refused_by_disk(error: &object_store::Error) -> bool {
    use ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let mut kinds = causes(error).filter_map(|error| Some(error.downcast_ref::<std::io::Error>()?.kind()));
    kinds.any(|kind| matches!(kind, PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull))
}

/// Whether an error may be gone when the same command runs again: there is [`advice`].
pub fn is_unavailable(error: &DataFusionError) -> bool {
    advice(error).is_some()
}

#[derive(Debug, thiserror::Error)]
#[error("{attempted}: {}", source.strip_backtrace())]
struct Failed {
    attempted: String,
    source: DataFusionError,
}

/// Adds to an error what was attempted. Keeps the cause for [`advice`].
pub(crate) fn failed(attempted: &str, error: DataFusionError) -> DataFusionError {
    if is_unavailable(&error) {
        return DataFusionError::External(Box::new(Failed { attempted: attempted.to_string(), source: error }));
    }
    let said = error.strip_backtrace();
    exec_datafusion_err!("{attempted}: {}", said.strip_prefix("Execution error: ").unwrap_or(&said))
}

fn later() -> &'static str {
    either(
        "The store is unavailable; run the same command again later",
        "The store is unavailable; repeat the call later",
    )
}

fn changing() -> &'static str {
    either(
        "Another request was changing the object; run the same command again",
        "Another request was changing the object; repeat the call",
    )
}

fn advice_of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    use ErrorKind::{QuotaExceeded, ResourceBusy, StaleNetworkFileHandle, StorageFull, TimedOut, WouldBlock};
    use HttpErrorKind::{Connect, Decode, Interrupted, Request, Timeout};
    if error.is::<Unavailable>() || matches!(error.downcast_ref(), Some(HubError::Unavailable(_))) {
        return Some(later());
    }
    if matches!(error.downcast_ref(), Some(HubError::Changed(_))) {
        return Some(changing());
    }
    if let Some(error) = error.downcast_ref::<std::io::Error>() {
        return match error.kind() {
            StorageFull | QuotaExceeded => Some(either(
                "Free space there, and run the same command again",
                "Free space there, and repeat the call",
            )),
            TimedOut | WouldBlock | ResourceBusy | StaleNetworkFileHandle => {
                Some(either("Run the same command again later", "Repeat the call later"))
            }
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref::<HttpError>() {
        // A body that ends too early cannot be decoded.
        return matches!(error.kind(), Connect | Request | Timeout | Interrupted | Decode).then(later);
    }
    // The type with the status is private to `object_store`.
    let text = error.to_string();
    let status = text.strip_prefix("Server returned non-2xx status code: ").unwrap_or_default();
    match status.get(..3).unwrap_or_default() {
        "409" | "412" => Some(changing()),
        "408" | "429" => Some(later()),
        status if status.starts_with('5') => Some(later()),
        _ => text.starts_with("Server returned error response: ").then(later),
    }
}
