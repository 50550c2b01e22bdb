//! How far a run is, counted while its rows are written.

use std::sync::atomic::{AtomicU64, Ordering};

/// Rows of the slices that are under way or done. Part of a session: what writes rows counts them here.
#[derive(Debug, Default)]
pub struct Progress {
    rows: AtomicU64,
    rejected: AtomicU64,
    tokens: AtomicU64,
}

/// Rows, rejected rows, and tokens of the original chains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// Rows that are through, rejected ones among them.
    pub rows: u64,
    /// Rejected rows.
    pub rejected: u64,
    /// Tokens of their original chains.
    pub tokens: u64,
}

impl Progress {
    /// So many more rows are written.
    pub fn advance(&self, rows: u64, rejected: u64, tokens: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// What was reached until now.
    pub fn reached(&self) -> Reached {
        Reached {
            rows: self.rows.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            tokens: self.tokens.load(Ordering::Relaxed),
        }
    }
}
