//! Caches between rows. Every cache that grows with rows is a [`Memo`] with a share of the session's memory limit.

use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

/// Shares of the memory limit in sixteenths; they add up to the whole.
pub mod share {
    /// Tokenized chains, which several functions need.
    pub const CHAINS: usize = 1;
    /// Token counts of pruned chains.
    pub const LENGTHS: usize = 1;
    /// Tokenized questions with their chains.
    pub const ROWS: usize = 1;
    /// Scores of chains.
    pub const SCORES: usize = 1;
    /// KV caches of what a model has read: prompts of a local language model, questions whose answers are checked.
    pub const PROMPTS: usize = 10;
    /// Answers of a language model, about ten thousand.
    pub const ANSWERS: usize = 2;
}

const DEFAULT_BYTES: usize = 768 << 20;

/// A memory limit that several memos share: those of the scoring model, or those of the language model.
#[derive(Debug)]
pub struct Memory {
    most: AtomicUsize,
    granted: AtomicUsize,
    used: AtomicUsize,
}

impl Default for Memory {
    fn default() -> Self {
        let [most, granted, used] = [DEFAULT_BYTES, usize::MAX, 0].map(AtomicUsize::new);
        Self { most, granted, used }
    }
}

impl Memory {
    /// Sets the limit in bytes. A memo evicts entries beyond its share at its next insertion.
    pub fn limit(&self, bytes: usize) {
        self.most.store(bytes, Ordering::Relaxed);
    }

    /// Temporarily caps the limit at `bytes`.
    pub fn grant(&self, bytes: usize) {
        self.granted.store(bytes, Ordering::Relaxed);
    }

    fn share(&self, sixteenths: usize) -> usize {
        self.most.load(Ordering::Relaxed).min(self.granted.load(Ordering::Relaxed)) / 16 * sixteenths
    }

    /// Returns the bytes of all entries, as their callers counted them.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// A least-recently-used cache with a share of a memory limit.
#[derive(Debug)]
pub struct Memo<K: Hash + Eq, V> {
    entries: Mutex<Entries<K, V>>,
    memory: Arc<Memory>,
    share: usize,
}

#[derive(Debug)]
struct Entries<K: Hash + Eq, V> {
    by_use: LruCache<K, (Arc<V>, usize)>,
    bytes: usize,
}

impl<K: Hash + Eq, V> Memo<K, V> {
    /// Creates a cache with a share of a memory limit, in sixteenths.
    pub fn new(memory: &Arc<Memory>, sixteenths: usize) -> Self {
        let entries = Mutex::new(Entries { by_use: LruCache::unbounded(), bytes: 0 });
        Self { entries, memory: Arc::clone(memory), share: sixteenths }
    }

    /// Returns the value of a key and marks it as the most recently used.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_use.get(key).map(|(value, _)| Arc::clone(value))
    }

    /// Removes and returns the value of a key.
    pub fn take(&self, key: &K) -> Option<Arc<V>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, bytes) = entries.by_use.pop(key)?;
        entries.bytes -= bytes;
        self.memory.used.fetch_sub(bytes, Ordering::Relaxed);
        Some(value)
    }

    /// Inserts a value of about `bytes` bytes and evicts others until it fits.
    pub fn insert(&self, key: K, value: Arc<V>, bytes: usize) {
        let most = self.memory.share(self.share);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let before = entries.bytes;
        if let Some((_, (_, replaced))) = entries.by_use.push(key, (value, bytes)) {
            entries.bytes -= replaced;
        }
        entries.bytes += bytes;
        while entries.bytes > most {
            let Some((_, (_, forgotten))) = entries.by_use.pop_lru() else { break };
            entries.bytes -= forgotten;
        }
        self.memory.used.fetch_add(entries.bytes.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl<K: Hash + Eq, V> Drop for Memo<K, V> {
    fn drop(&mut self) {
        let entries = self.entries.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.memory.used.fetch_sub(entries.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_that_was_not_used_for_longest_is_forgotten() {
        let memory = Arc::new(Memory::default());
        memory.limit(1600);
        let memo = Memo::new(&memory, 1);
        for key in 0..3 {
            memo.insert(key, Arc::new(key * 10), 30);
        }
        assert_eq!(memo.get(&0).as_deref(), Some(&0));
        memo.insert(3, Arc::new(30), 30);
        assert_eq!(memo.get(&1), None);
        assert_eq!(memo.get(&0).as_deref(), Some(&0));
        memo.insert(0, Arc::new(1), 40);
        assert_eq!((memo.get(&0).as_deref(), memo.get(&3).as_deref()), (Some(&1), Some(&30)));
        assert_eq!(memory.used(), 100);
        memo.insert(9, Arc::new(9), 1000);
        assert_eq!((memo.get(&9), memory.used()), (None, 0));
    }

    #[test]
    fn a_memory_counts_all_its_memos_and_its_limit_holds_from_the_next_value_on() {
        let memory = Arc::new(Memory::default());
        let (first, second) = (Memo::new(&memory, 8), Memo::new(&memory, 8));
        first.insert(1, Arc::new(()), 70);
        second.insert(1, Arc::new(()), 50);
        assert_eq!(memory.used(), 120);
        memory.grant(160);
        first.insert(2, Arc::new(()), 20);
        assert_eq!((first.get(&1), memory.used()), (None, 70));
        memory.grant(usize::MAX);
        first.insert(3, Arc::new(()), 70);
        assert_eq!(memory.used(), 140);
        memory.limit(160);
        first.insert(4, Arc::new(()), 10);
        assert_eq!(memory.used(), 130);
        drop(first);
        assert_eq!(memory.used(), 50);
    }
}
