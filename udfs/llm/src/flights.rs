//! Single flight: a caller that requests a value already being computed waits for that computation.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the runtime shut down before the answer arrived")]
pub struct Interrupted;

/// Running computations, by key.
///
/// A computation runs as a separate task. It continues while its first caller is not polled, so two streams that wait
/// for each other's rows do not deadlock. When no caller waits any longer it is aborted, unless it pays
/// ([`Callers::pay`]). Then it continues, and a later caller with the same key joins it.
pub struct SingleFlight<K, V> {
    /// Each running computation holds a clone.
    open: Arc<Open<K, V>>,
}

type Open<K, V> = Mutex<HashMap<K, Flight<V>>>;

struct Flight<V> {
    value: Shared<BoxFuture<'static, Result<V, Interrupted>>>,
    callers: Arc<Callers>,
}

#[derive(Debug, Default)]
pub struct Callers(Mutex<CallersState>);

#[derive(Debug, Default)]
struct CallersState {
    waiting: usize,
    paying: usize,
    task: Option<AbortHandle>,
    is_aborted: bool,
}

impl CallersState {
    fn abort_if_idle(&mut self) {
        if self.waiting == 0 && self.paying == 0 {
            self.is_aborted = true;
            self.task.iter().for_each(AbortHandle::abort);
        }
    }
}

impl Callers {
    /// Keeps the computation running while the returned guard lives, even if all callers leave: it is paying for
    /// something. Returns None if no caller waits.
    pub fn pay(self: &Arc<Self>) -> Option<Hold> {
        self.hold(|state| state.waiting > 0, |state| &mut state.paying)
    }

    fn join(self: &Arc<Self>) -> Option<Hold> {
        self.hold(|state| !state.is_aborted, |state| &mut state.waiting)
    }

    fn hold(self: &Arc<Self>, may_hold: fn(&CallersState) -> bool, count: Count) -> Option<Hold> {
        let mut state = self.0.lock();
        may_hold(&state).then(|| {
            *count(&mut state) += 1;
            Hold { callers: Arc::clone(self), count }
        })
    }
}

type Count = fn(&mut CallersState) -> &mut usize;

/// Keeps a computation running: one that waits for it, or one that pays.
#[derive(Debug)]
pub struct Hold {
    callers: Arc<Callers>,
    count: Count,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.callers.0.lock();
        *(self.count)(&mut state) -= 1;
        state.abort_if_idle();
    }
}

/// A running computation. Dropping it removes its key, so that no caller can join it.
struct Running<K: Eq + Hash, V> {
    key: K,
    open: Arc<Open<K, V>>,
    callers: Arc<Callers>,
}

impl<K: Eq + Hash, V> Drop for Running<K, V> {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        // After an aborted computation, another one may have started under the key.
        if open.get(&self.key).is_some_and(|flight| Arc::ptr_eq(&flight.callers, &self.callers)) {
            open.remove(&self.key);
        }
    }
}

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self { open: Arc::default() }
    }
}

impl<K, V> fmt::Debug for SingleFlight<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash + Clone + Send + 'static, V: Clone + Send + Sync + 'static> SingleFlight<K, V> {
    /// Returns the value of the computation under this key, and whether it was already running. Starts it if not.
    ///
    /// # Errors
    /// If the runtime shuts down.
    pub async fn join<Computing>(
        &self,
        key: K,
        compute: impl FnOnce(Arc<Callers>) -> Computing,
    ) -> Result<(V, bool), Interrupted>
    where
        Computing: Future<Output = V> + Send + 'static,
    {
        let (value, seat, joined) = self.board(key, compute);
        let value = value.await;
        drop(seat);
        Ok((value?, joined))
    }

    /// Returns whether a computation runs.
    pub fn any(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }

    #[allow(clippy::type_complexity, reason = "the caller takes the tuple apart immediately")]
    fn board<Computing>(
        &self,
        key: K,
        compute: impl FnOnce(Arc<Callers>) -> Computing,
    ) -> (Shared<BoxFuture<'static, Result<V, Interrupted>>>, Option<Hold>, bool)
    where
        Computing: Future<Output = V> + Send + 'static,
    {
        let mut open = self.open.lock();
        if let Some((value, seat)) =
            open.get(&key).and_then(|flight| Some((flight.value.clone(), flight.callers.join()?)))
        {
            return (value, Some(seat), true);
        }
        let callers = Arc::new(Callers::default());
        let seat = callers.join();
        let (ended, value) = oneshot::channel();
        let value = value.map(|ended| match ended {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(Interrupted),
        });
        let value = value.boxed().shared();
        open.insert(key.clone(), Flight { value: value.clone(), callers: Arc::clone(&callers) });
        // A runtime that shuts down drops the task immediately, and the task then locks `open` to remove itself.
        drop(open);
        let running = Running { key, open: Arc::clone(&self.open), callers: Arc::clone(&callers) };
        let computing = AssertUnwindSafe(compute(Arc::clone(&callers))).catch_unwind();
        let task = tokio::spawn(async move {
            let value = computing.await;
            // A caller that has the value and requests it again starts a new computation.
            drop(running);
            // All callers may have left.
            let _ = ended.send(value);
        });
        callers.0.lock().task = Some(task.abort_handle());
        (value, seat, false)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn equal_keys_share_one_computation() {
        let (flights, runs) = (SingleFlight::default(), Arc::new(AtomicUsize::new(0)));
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
        assert!(flights.open.lock().is_empty());
    }

    #[test]
    fn a_runtime_that_has_ended_interrupts_and_leaves_nothing_open() {
        let flights = SingleFlight::<u32, u32>::default();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let _entered = handle.enter();
        assert_eq!(futures::executor::block_on(flights.join(1, |_| async { 2 })), Err(Interrupted));
        assert!(flights.open.lock().is_empty() && !flights.any());
    }

    #[tokio::test]
    async fn a_computation_goes_on_for_the_others_and_stops_with_the_last() {
        let flights = SingleFlight::<u32, u32>::default();
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
        // An aborted computation is not joined. Its successor stays open although the aborted one ends later.
        assert_eq!(flights.join(2, |_| async { 1 }).await, Ok((1, false)));
        assert!(receiver.await.is_err());
    }

    #[tokio::test]
    async fn a_computation_that_pays_goes_on_though_everybody_leaves_and_is_joined_by_who_comes_then() {
        let flights = SingleFlight::<u32, u32>::default();
        let (gate, reached) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let pays = |steps: u32| {
            let (opened, reaching) = (Arc::clone(&gate), Arc::clone(&reached));
            move |callers: Arc<Callers>| async move {
                let paying = callers.pay().unwrap();
                reaching.add_permits(1);
                opened.acquire().await.unwrap().forget();
                // No caller waits for a second payment.
                assert_eq!(callers.pay().is_none(), steps == 2);
                reaching.add_permits(1);
                drop(paying);
                7
            }
        };
        for (key, comes_back) in [(1, false), (2, true)] {
            let mut caller = Box::pin(flights.join(key, pays(if comes_back { 1 } else { 2 })));
            assert!(futures::poll!(&mut caller).is_pending());
            reached.acquire().await.unwrap().forget();
            drop(caller);
            assert!(flights.any());
            let mut late = comes_back.then(|| Box::pin(flights.join(key, |_| async { 0 })));
            if let Some(late) = &mut late {
                assert!(futures::poll!(late).is_pending());
            }
            gate.add_permits(1);
            if let Some(late) = late {
                assert_eq!(late.await, Ok((7, true)));
            }
            reached.acquire().await.unwrap().forget();
            while flights.any() {
                tokio::task::yield_now().await;
            }
        }
    }
}
