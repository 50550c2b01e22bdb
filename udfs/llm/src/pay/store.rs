//! The interfaces of what outlives a session: paid answers, and money that several sessions spend together.
//! Implementations use object stores; this crate does not.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::chat::Outcome;
use crate::request::RequestKey;

/// Reserves a request that this process is about to pay for, until it is dropped.
pub type Claim = Box<dyn Send + Sync>;

#[derive(Debug, Clone, thiserror::Error)]
#[error("the store of answers: {0}")]
pub struct StoreError(pub String);

/// A store of answers that outlives the session.
#[async_trait]
pub trait AnswerStore: Debug + Send + Sync {
    /// Returns the answer that was kept under a key, if there is one.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn get(&self, key: &RequestKey) -> Result<Option<Outcome>, StoreError>;

    /// Checks that answers can be kept. It is called before anything is paid.
    ///
    /// # Errors
    /// If answers cannot be kept.
    async fn check(&self) -> Result<(), StoreError>;

    /// Waits until no other process is making the same request, and looks for new answers. Until the claim is dropped,
    /// no other process makes the request. None if processes cannot see each other.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn claim(&self, _key: &RequestKey) -> Result<Option<Claim>, StoreError> {
        Ok(None)
    }

    /// Changes the answer cache to that of the session's settings. A store with a fixed folder ignores it.
    fn use_folder(&self, _folder: Option<&str>) {}

    /// Keeps an answer or a paid failure, and returns when it is durable: only then is it used. With `may_wait`, other
    /// answers are in flight, and the write may be delayed for a moment to join theirs.
    ///
    /// # Errors
    /// If the answer is not durable.
    async fn keep(&self, key: RequestKey, outcome: Outcome, may_wait: bool) -> Result<(), StoreError>;
}

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
