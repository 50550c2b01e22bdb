//! Turns panics of Parquet readers on damaged files into failures of the file.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use datafusion::common::{DataFusionError, Result, exec_err};
use futures::StreamExt;

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs guarded work, whose panics must not be reported.
pub fn is_guarded() -> bool {
    IS_GUARDED.get()
}

pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> std::result::Result<T, String> {
    let before = IS_GUARDED.replace(true);
    // Unwind safe, because the reader is dropped after a failure.
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(before);
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        format!("its reader stopped: {}", text.unwrap_or("no reason given"))
    })
}

/// Runs a future whose panics are errors, with the reason.
pub async fn guarded_future<T>(future: impl Future<Output = T>) -> std::result::Result<T, String> {
    let mut future = std::pin::pin!(future);
    let poll = move |context: &mut Context<'_>| match guarded(|| future.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panicked) => Poll::Ready(Err(panicked)),
    };
    std::future::poll_fn(poll).await
}

pub(crate) async fn guarded_next<S, T, E>(stream: &mut S) -> Result<Option<T>>
where
    S: futures::Stream<Item = Result<T, E>> + Unpin,
    DataFusionError: From<E>,
{
    match guarded_future(stream.next()).await {
        Ok(next) => Ok(next.transpose()?),
        Err(panicked) => exec_err!("{panicked}"),
    }
}
