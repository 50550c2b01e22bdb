//! Single flight: who asks for what is being computed already waits for that.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::task::AbortHandle;

/// A computation, and who waits for it.
type Flight<V> = BoxFuture<'static, Result<V, Interrupted>>;

/// The runtime ended before the computation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the runtime ended before the answer came")]
pub struct Interrupted;

/// What is being computed, by key.
///
/// A computation runs as a task of its own: it goes on while whoever asked first is not polled, so two streams that wait
/// for each other's rows do not stop. When nobody waits any longer it is aborted, unless it holds on ([`Waiters::hold`]).
pub struct Flights<K, V> {
    open: Mutex<HashMap<K, WeakShared<Flight<V>>>>,
    running: Arc<AtomicUsize>,
}

/// Those who wait for a computation, as the computation sees them.
#[derive(Debug, Default)]
pub struct Waiters(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    are_gone: bool,
    is_held: bool,
}

impl Waiters {
    /// From here on the computation goes on though everybody may leave: it pays for something. False if nobody waits.
    pub fn hold(&self) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_held = !waiting.are_gone;
        waiting.is_held
    }

    /// From here on the computation is aborted when everybody leaves.
    pub fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_held = false;
    }
}

/// Aborts a computation when it is dropped with the last who waits, unless it holds on.
struct LastLeaves {
    waiters: Arc<Waiters>,
    task: AbortHandle,
}

impl Drop for LastLeaves {
    fn drop(&mut self) {
        let mut waiting = self.waiters.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.are_gone = true;
        if !waiting.is_held {
            self.task.abort();
        }
    }
}

/// Counts a computation while it runs.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn begin(running: &Arc<AtomicUsize>) -> Self {
        running.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(running))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self { open: Mutex::default(), running: Arc::default() }
    }
}

impl<K, V> fmt::Debug for Flights<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash, V: Clone + Send + Sync + 'static> Flights<K, V> {
    /// The value of the computation under this key, which is started if there is none; and whether it was there.
    ///
    /// # Errors
    /// If the runtime ends.
    pub async fn join<Computing>(
        &self,
        key: K,
        compute: impl FnOnce(Arc<Waiters>) -> Computing,
    ) -> Result<(V, bool), Interrupted>
    where
        Computing: Future<Output = V> + Send + 'static,
    {
        let (flight, joined) = self.board(key, compute);
        Ok((flight.await?, joined))
    }

    /// Whether a computation runs, also one that nobody waits for.
    pub fn any(&self) -> bool {
        self.running.load(Ordering::SeqCst) > 0
    }

    fn board<Computing>(&self, key: K, compute: impl FnOnce(Arc<Waiters>) -> Computing) -> (Shared<Flight<V>>, bool)
    where
        Computing: Future<Output = V> + Send + 'static,
    {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = open.get(&key).and_then(WeakShared::upgrade) {
            return (flight, true);
        }
        open.retain(|_, flight| flight.upgrade().is_some());
        let waiters = Arc::new(Waiters::default());
        let (running, computing) = (Running::begin(&self.running), compute(Arc::clone(&waiters)));
        let task = tokio::spawn(async move {
            let _running = running;
            computing.await
        });
        let last = LastLeaves { waiters, task: task.abort_handle() };
        let flight = async move {
            let _last = last;
            task.await.map_err(|error| match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Interrupted,
            })
        };
        let flight = flight.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            open.insert(key, weak);
        }
        (flight, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::{Semaphore, oneshot};

    #[tokio::test]
    async fn equal_keys_share_one_computation() {
        let (flights, runs) = (Flights::default(), AtomicUsize::new(0));
        let runs = Arc::new(runs);
        let join = |key: u32| {
            let runs = Arc::clone(&runs);
            flights.join(key, move |_| async move {
                tokio::task::yield_now().await;
                runs.fetch_add(1, Ordering::Relaxed);
                key * 10
            })
        };
        let values = futures::future::join_all([1, 2, 1, 1, 2].map(join)).await;
        let values: Vec<_> = values.into_iter().map(Result::unwrap).collect();
        assert_eq!(values, [(10, false), (20, false), (10, true), (10, true), (20, true)]);
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        assert_eq!(join(1).await.unwrap(), (10, false));
        assert_eq!(flights.open.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_computation_goes_on_for_the_others_and_stops_with_the_last() {
        let flights = Flights::<u32, u32>::default();
        let gate = Arc::new(Semaphore::new(0));
        let opened = Arc::clone(&gate);
        let mut first = Box::pin(flights.join(1, move |_| async move {
            drop(opened.acquire().await);
            5
        }));
        assert!(futures::poll!(&mut first).is_pending());
        let mut second = Box::pin(flights.join(1, |_| async { 6 }));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        gate.add_permits(1);
        assert_eq!(second.await, Ok((5, true)));

        let (sender, receiver) = oneshot::channel::<()>();
        let mut alone = Box::pin(flights.join(2, move |_| async move {
            std::future::pending::<()>().await;
            drop(sender);
            0
        }));
        assert!(futures::poll!(&mut alone).is_pending());
        drop(alone);
        assert!(receiver.await.is_err());
    }

    #[tokio::test]
    async fn a_computation_that_pays_goes_on_though_everybody_leaves() {
        let flights = Flights::<u32, u32>::default();
        let (gate, reached) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (opened, reaching) = (Arc::clone(&gate), Arc::clone(&reached));
        let mut caller = Box::pin(flights.join(1, move |waiters| async move {
            assert!(waiters.hold());
            reaching.add_permits(1);
            drop(opened.acquire().await);
            // What it would pay next, nobody waits for.
            assert!(!waiters.hold());
            reaching.add_permits(1);
            7
        }));
        assert!(futures::poll!(&mut caller).is_pending());
        reached.acquire().await.unwrap().forget();
        drop(caller);
        assert!(flights.any());
        gate.add_permits(1);
        reached.acquire().await.unwrap().forget();
        while flights.any() {
            tokio::task::yield_now().await;
        }
    }
}
