//! Limits the concurrent calls and the rates to an endpoint: what the settings allow, and less while the endpoint does
//! not accept that.
//!
//! The number of calls in flight doubles from eight up to the setting. A call that the endpoint limits (429, or any
//! status with Retry-After) waits as long as the endpoint asks and is sent again; others take its place. Two patterns
//! concern all calls:
//!
//! - **Ten calls in a row** are limited or fail, in the order of their starts: the endpoint accepts nothing now. No
//!   call starts for a while. Then one at a time tries, after pauses that double until one is accepted ([`state`]).
//! - **More than one call in ten** is limited for long: some start at half the pace, which shows whether the pace is
//!   the reason ([`pace`]).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use self::state::{Limited, Pause};
use self::state::{ThrottleState, time};
use crate::send::retry;

mod calls;
mod pace;
mod state;
#[cfg(test)]
mod tests;

/// The limits of an endpoint in the whole process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Concurrent calls.
    pub at_once: u32,
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u32>,
}

/// Decides when calls to an endpoint may start, across all sessions and queries.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Calls start in the order of their requests; a call that gives up while it waits uses no capacity.
    turn: tokio::sync::Mutex<()>,
    pub(crate) state: Mutex<ThrottleState>,
    changed: Notify,
}

#[derive(Debug)]
pub(crate) struct Admitted {
    throttle: Arc<Throttle>,
    number: u64,
}

impl Throttle {
    /// Waits until a call of about `tokens` tokens may start. The call is in flight until the returned guard is
    /// dropped.
    pub(crate) async fn admit(self: &Arc<Self>, limits: Limits, tokens: u64) -> Admitted {
        let _waiting = Arc::clone(&self.state.lock().waiting);
        let _turn = self.turn.lock().await;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed, even one before the await.
            changed.as_mut().enable();
            let begun = self.state.lock().begin(limits, tokens, Instant::now());
            match begun {
                Ok(number) => return Admitted { throttle: Arc::clone(self), number },
                Err(Some(at)) => tokio::select! {
                    () = tokio::time::sleep_until(at) => {}
                    () = changed => {}
                },
                Err(None) => changed.await,
            }
        }
    }

    pub(crate) fn correct(&self, estimated: u64, actual: u64, limits: Limits) {
        let Some(per_minute) = limits.tokens_per_minute else { return };
        let next = &mut self.state.lock().next[2];
        *next = next.and_then(|next| match actual.checked_sub(estimated) {
            Some(more) => Some(next + time(more, per_minute)),
            None => next.checked_sub(time(estimated - actual, per_minute)),
        });
    }
}

impl Admitted {
    pub(crate) fn answered(&self) {
        self.throttle.state.lock().answered(self.number);
    }

    pub(crate) fn limited(&self, after: Duration) -> Limited {
        self.throttle.state.lock().limited(self.number, after, retry::jitter(), Instant::now())
    }

    pub(crate) fn failed(&self, pauses: bool) -> bool {
        self.throttle.state.lock().failed(self.number, pauses, retry::jitter(), Instant::now())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.throttle.state.lock().end(self.number, Instant::now());
        self.throttle.changed.notify_waiters();
    }
}
