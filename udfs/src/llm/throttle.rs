//! How much an endpoint is asked at once and in a minute: what the settings allow, and less while the endpoint does not take
//! that.
//!
//! The number of calls in flight doubles from eight up to the setting. A call that the endpoint limits (429, or any status
//! with Retry-After) waits as long as the endpoint asks and is sent again; others take its place. What it says of all calls:
//!
//! - **Ten calls in a row** are limited or fail, in the order of their starts: the endpoint takes nothing now. No call starts
//!   for a while. Then one at a time tries, after pauses that double until one is taken ([`state`]).
//! - **More than one call in ten** is limited for long: some start at half the pace, which shows whether the pace is the
//!   reason ([`pace`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub(super) use self::state::{Limited, Pause};
use self::state::{State, time};
use super::retry;

mod calls;
mod pace;
mod state;
#[cfg(test)]
mod tests;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub at_once: u32,
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u32>,
}

/// When calls to an endpoint may start, whatever sessions and queries make them.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Calls start in the order in which they asked; who gives up while it waits takes nothing from the others.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
pub(crate) struct Admitted {
    throttle: Arc<Throttle>,
    number: u64,
}

impl Throttle {
    /// Waits until a call of about so many tokens may start. It is in flight until what this returns is dropped.
    pub(crate) async fn admit(self: &Arc<Self>, limits: Limits, tokens: u64) -> Admitted {
        let _waiting = Waiting::begin(self);
        let _turn = self.turn.lock().await;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on it hears of every change, also of one before it waits.
            changed.as_mut().enable();
            let begun = self.state().begin(limits, tokens, Instant::now());
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
        let next = &mut self.state().next[2];
        *next = next.and_then(|next| match actual.checked_sub(estimated) {
            Some(more) => Some(next + time(more, per_minute)),
            None => next.checked_sub(time(estimated - actual, per_minute)),
        });
    }

    /// Whether the endpoint has taken no call for so long that it should be told, for the first time since it took one.
    pub(crate) fn is_stuck_anew(&self) -> bool {
        self.state().is_stuck_anew()
    }

    /// A pause of more than 30 seconds that was not announced yet: of all calls, or of one that waits for `own`.
    pub(crate) fn unannounced(&self, own: Duration) -> Option<Pause> {
        self.state().unannounced(own, Instant::now())
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> u32 {
        self.state().in_flight
    }

    #[cfg(test)]
    pub(crate) fn stops(&self) -> u32 {
        self.state().stops
    }

    /// How often calls were slowed down to see whether their pace is the reason for limits.
    #[cfg(test)]
    pub(crate) fn trials(&self) -> u32 {
        self.state().pace.trials
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    pub(crate) fn answered(&self) {
        self.throttle.state().answered(self.number);
    }

    /// The endpoint took the call for one too many, and may ask for a pause.
    pub(crate) fn limited(&self, after: Duration) -> Limited {
        self.throttle.state().limited(self.number, after, retry::jitter(), Instant::now())
    }

    /// The call failed. Where `pauses`, all calls pause if no other is taken either. Whether the endpoint is down: so many
    /// calls in a row failed.
    pub(crate) fn failed(&self, pauses: bool) -> bool {
        self.throttle.state().failed(self.number, pauses, retry::jitter(), Instant::now())
    }
}

struct Waiting<'a>(&'a Throttle);

impl<'a> Waiting<'a> {
    fn begin(throttle: &'a Throttle) -> Self {
        throttle.state().waiting += 1;
        Self(throttle)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.throttle.state().end(self.number, Instant::now());
        self.throttle.changed.notify_waiters();
    }
}
