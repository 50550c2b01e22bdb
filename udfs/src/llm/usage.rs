//! What calls took.

use std::ops::AddAssign;

use serde::Serialize;

/// What calls took: those of a session so far, or those of a row.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Usage {
    /// Requests that were sent, retries included.
    pub calls: u64,
    /// Requests of rows that were answered without one.
    pub cache_hits: u64,
    /// Requests that were sent again after a failure.
    pub retries: u64,
    /// Requests of rows that ended without an answer.
    pub failed: u64,
    /// Tokens of prompts that were paid.
    pub tokens_in: u64,
    /// Tokens of answers that were paid.
    pub tokens_out: u64,
    /// Their cost, in the currency of the prices.
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
