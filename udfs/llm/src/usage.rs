//! The usage of calls.

use std::ops::AddAssign;

use serde::Serialize;

/// The usage of the calls of a session so far, or of a row.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Usage {
    /// Requests that were sent, retries included.
    pub calls: u64,
    /// Requests of rows that were answered without a call.
    pub cache_hits: u64,
    pub retries: u64,
    /// Requests of rows that ended without an answer.
    pub failed: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    /// The cost, in the currency of the prices.
    pub cost: f64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.calls += more.calls;
        self.cache_hits += more.cache_hits;
        self.retries += more.retries;
        self.failed += more.failed;
        self.tokens_in = self.tokens_in.saturating_add(more.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(more.tokens_out);
        self.cost += more.cost;
    }
}
