//! Single flight: who asks for what is being computed already waits for that.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use datafusion::common::runtime::SpawnedTask;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

/// A computation, and who waits for it.
type Flight<V> = BoxFuture<'static, Result<V, Interrupted>>;

/// The runtime ended before the computation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the runtime ended before the answer came")]
pub struct Interrupted;

/// What is being computed, by key.
///
/// A computation runs as a task of its own: it goes on while whoever asked first is not polled, so two streams that wait
/// for each other's rows do not stop, and it is aborted when nobody waits any longer.
pub struct Flights<K, V> {
    open: Mutex<HashMap<K, WeakShared<Flight<V>>>>,
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self { open: Mutex::default() }
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
    pub async fn join(
        &self,
        key: K,
        compute: impl Future<Output = V> + Send + 'static,
    ) -> Result<(V, bool), Interrupted> {
        let (flight, joined) = self.board(key, compute);
        Ok((flight.await?, joined))
    }

    /// Whether anybody waits for a computation.
    pub fn any(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().any(|flight| flight.upgrade().is_some())
    }

    fn board(&self, key: K, compute: impl Future<Output = V> + Send + 'static) -> (Shared<Flight<V>>, bool) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = open.get(&key).and_then(WeakShared::upgrade) {
            return (flight, true);
        }
        open.retain(|_, flight| flight.upgrade().is_some());
        let task = SpawnedTask::spawn(compute);
        let flight = async move { task.join_unwind().await.map_err(|_| Interrupted) }.boxed().shared();
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
            flights.join(key, async move {
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
        let mut first = Box::pin(flights.join(1, async move {
            drop(opened.acquire().await);
            5
        }));
        assert!(futures::poll!(&mut first).is_pending());
        let mut second = Box::pin(flights.join(1, async { 6 }));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        gate.add_permits(1);
        assert_eq!(second.await, Ok((5, true)));

        let (sender, receiver) = oneshot::channel::<()>();
        let mut alone = Box::pin(flights.join(2, async move {
            std::future::pending::<()>().await;
            drop(sender);
            0
        }));
        assert!(futures::poll!(&mut alone).is_pending());
        drop(alone);
        assert!(receiver.await.is_err());
    }
}
