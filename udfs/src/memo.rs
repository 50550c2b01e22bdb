//! What was computed last, bounded by memory.

use std::hash::Hash;
use std::sync::Arc;

use lru::LruCache;

/// The values that were last used, as many as fit into a number of bytes.
#[derive(Debug)]
pub struct Memo<K: Hash + Eq, V> {
    entries: LruCache<K, (Arc<V>, usize)>,
    bytes: usize,
    limit: usize,
}

impl<K: Hash + Eq, V> Memo<K, V> {
    /// A memo of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { entries: LruCache::unbounded(), bytes: 0, limit }
    }

    /// The value of a key, which becomes the last to be forgotten.
    pub fn get(&mut self, key: &K) -> Option<Arc<V>> {
        self.entries.get(key).map(|(value, _)| Arc::clone(value))
    }

    /// Remembers a value that takes about this many bytes and forgets others until it fits.
    pub fn insert(&mut self, key: K, value: Arc<V>, bytes: usize) {
        if let Some((_, replaced)) = self.entries.push(key, (value, bytes)).map(|(_, old)| old) {
            self.bytes -= replaced;
        }
        self.bytes += bytes;
        while self.bytes > self.limit {
            let Some((_, (_, forgotten))) = self.entries.pop_lru() else { break };
            self.bytes -= forgotten;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_that_was_not_used_for_longest_is_forgotten() {
        let mut memo = Memo::new(100);
        for key in 0..3 {
            memo.insert(key, Arc::new(key * 10), 30);
        }
        assert_eq!(memo.get(&0).as_deref(), Some(&0));
        memo.insert(3, Arc::new(30), 30);
        assert_eq!(memo.get(&1), None);
        assert_eq!(memo.get(&0).as_deref(), Some(&0));
        memo.insert(0, Arc::new(1), 40);
        assert_eq!((memo.get(&0).as_deref(), memo.get(&3).as_deref()), (Some(&1), Some(&30)));
        assert_eq!(memo.bytes, 100);
        memo.insert(9, Arc::new(9), 1000);
        assert_eq!((memo.get(&9), memo.bytes), (None, 0));
    }
}
