//! How long a request to a store is retried, and which errors mean that a store is unavailable.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use datafusion::common::{DataFusionError, exec_datafusion_err};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::{BackoffConfig, RetryConfig};

static TIMEOUT: AtomicU64 = AtomicU64::new(60_000);

/// Marks an error as caused by an unavailable store. The error's text has the details.
#[derive(Debug, thiserror::Error)]
#[error("the store is unavailable")]
pub(crate) struct Unavailable;

/// Sets how long a request is retried if a store answers 5xx or 429, or does not answer. Applies to stores opened
/// later.
pub fn set_retry_timeout(timeout: Duration) {
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

/// Whether an error means that a store is unavailable: not reachable, or it answered 408, 429 or 5xx. The same request
/// may succeed later.
pub fn is_unavailable(error: &DataFusionError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<Unavailable>() || is_of_store(error) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Adds to an error what was attempted. Keeps the cause of an unavailable store for [`is_unavailable`].
pub(crate) fn failed(attempted: &str, error: DataFusionError) -> DataFusionError {
    if is_unavailable(&error) {
        return error.context(attempted);
    }
    exec_datafusion_err!("{attempted}: {}", error.strip_backtrace())
}

fn is_of_store(error: &(dyn Error + 'static)) -> bool {
    use HttpErrorKind::{Connect, Interrupted, Request, Timeout};
    if let Some(error) = error.downcast_ref::<HttpError>() {
        return matches!(error.kind(), Connect | Request | Timeout | Interrupted);
    }
    // The type with the status is private to `object_store`.
    let text = error.to_string();
    let status = text.strip_prefix("Server returned non-2xx status code: ");
    let is_transient = |status: &str| status.starts_with('5') || status.starts_with("429") || status.starts_with("408");
    status.is_some_and(is_transient) || text.starts_with("Server returned error response: ")
}
