//! Counts a session's caches in the memory that its queries may use.

use std::sync::{Arc, Weak};

use asap_lm::memo::Memory;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use parking_lot::Mutex;

/// Caches use at most 1 / `MOST` of the pool: queries fail if they find no room.
const MOST: usize = 4;

type Reserved = (Weak<dyn MemoryPool>, MemoryReservation);

#[derive(Debug, Clone, Default)]
pub(crate) struct CacheReservation {
    reserved: Arc<Mutex<Option<Reserved>>>,
}

impl CacheReservation {
    pub(crate) fn move_to(&self, pool: &Arc<dyn MemoryPool>) {
        let mut reserved = self.reserved.lock();
        // Setting a new memory limit in the engine creates a new pool.
        if !reserved.as_ref().is_some_and(|(of, _)| Weak::ptr_eq(of, &Arc::downgrade(pool))) {
            let reservation = MemoryConsumer::new("asap.cache.memory").register(pool);
            *reserved = Some((Arc::downgrade(pool), reservation));
        }
    }

    /// Reserves the current size of the caches and sets their limits: a quarter of the pool together, less if the pool
    /// is full.
    pub(crate) fn resize(&self, memories: [&Memory; 2]) {
        let reserved = self.reserved.lock();
        let Some((pool, reservation)) = reserved.as_ref() else { return };
        let Some(pool) = pool.upgrade() else { return };
        let used: usize = memories.iter().map(|memory| memory.used()).sum();
        let has_room = reservation.try_resize(used).is_ok();
        let granted = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / MOST / memories.len(),
            _ => usize::MAX,
        };
        for memory in memories {
            memory.grant(if has_room { granted } else { granted.min(memory.used() / 2) });
        }
    }
}
