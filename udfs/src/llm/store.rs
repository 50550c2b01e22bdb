//! The interface of the storage of paid answers. Implementations use object stores; this crate does not.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::chat::Outcome;
use crate::settings::Settings;

/// The key of an answer: the SHA-256 of the whole request.
pub type RequestKey = [u8; 32];

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

    /// Applies changed settings, such as the location of answers.
    fn configure(&self, _settings: &Settings) {}

    /// Keeps an answer or a paid failure, and returns when it is durable: only then is it used. With `may_wait`, other
    /// answers are in flight, and the write may be delayed for a moment to join theirs.
    ///
    /// # Errors
    /// If the answer is not durable.
    async fn keep(&self, key: RequestKey, outcome: Outcome, may_wait: bool) -> Result<(), StoreError>;
}

#[derive(Debug)]
pub(crate) struct ReadOnly(pub Arc<dyn AnswerStore>);

#[async_trait]
impl AnswerStore for ReadOnly {
    async fn get(&self, key: &RequestKey) -> Result<Option<Outcome>, StoreError> {
        self.0.get(key).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn configure(&self, settings: &Settings) {
        self.0.configure(settings);
    }

    async fn keep(&self, _: RequestKey, _: Outcome, _: bool) -> Result<(), StoreError> {
        Ok(())
    }
}
