//! Money that several sessions spend together.

use std::fmt::Debug;

use async_trait::async_trait;

use super::store::StoreError;

/// Money that is shared with sessions of other processes. A session may spend what it takes.
#[async_trait]
pub trait Purse: Debug + Send + Sync {
    /// Takes at least `needed` of the remainder of `most`, or nothing, in the currency of the prices.
    ///
    /// # Errors
    /// If the remainder is unknown.
    async fn take(&self, needed: f64, most: f64) -> Result<Taken, StoreError>;

    /// Returns the amount that was taken and not spent. If it is below 0, takes the overspent amount, even beyond the
    /// remainder.
    ///
    /// # Errors
    /// If the purse cannot be written. The amount taken then counts as spent.
    async fn settle(&self, left: f64) -> Result<(), StoreError>;
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken {
    /// The amount; 0 if the remainder is too small.
    pub amount: f64,
    /// The amount that all sessions have taken from the purse.
    pub total: f64,
}
