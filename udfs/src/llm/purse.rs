//! Money that several sessions spend together.

use std::fmt::Debug;

use async_trait::async_trait;

use super::store::StoreError;

/// Money that is shared with sessions of other processes. What is taken from it is this session's to spend.
#[async_trait]
pub trait Purse: Debug + Send + Sync {
    /// Takes at least `needed` of what is left of `most`, or nothing, in the currency of the prices.
    ///
    /// # Errors
    /// If it is not known what is left.
    async fn take(&self, needed: f64, most: f64) -> Result<Taken, StoreError>;

    /// Gives back what was taken and not spent. Below 0, takes what was spent and not taken, however much is left.
    ///
    /// # Errors
    /// If it cannot be written; then what was taken counts as spent.
    async fn settle(&self, left: f64) -> Result<(), StoreError>;
}

/// What was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken {
    /// How much; 0 if not as much as was needed is left.
    pub amount: f64,
    /// What is taken from the purse now, by all sessions.
    pub total: f64,
}
