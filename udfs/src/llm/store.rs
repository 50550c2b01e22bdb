//! Where paid answers are kept, seen from here: what stores them knows object stores, this crate does not.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::chat::Outcome;
use crate::settings::Settings;

/// What an answer is found by: the SHA-256 of the whole request that it answers.
pub type RequestKey = [u8; 32];

/// Holds a request that this process is about to pay for, until it is dropped.
pub type Claim = Box<dyn Send + Sync>;

/// Why an answer could not be read or kept.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the store of answers: {0}")]
pub struct StoreError(pub String);

/// A store of answers that outlives the session.
#[async_trait]
pub trait AnswerStore: Debug + Send + Sync {
    /// The answer that was kept under a key, if there is one.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn get(&self, key: &RequestKey) -> Result<Option<Outcome>, StoreError>;

    /// Makes sure that answers can be kept; it is asked before anything is paid.
    ///
    /// # Errors
    /// If they cannot.
    async fn check(&self) -> Result<(), StoreError>;

    /// Waits until no other process asks for the same request, and looks for answers that came since. Until the claim is dropped,
    /// no other process asks for it. None where processes cannot know of each other.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn claim(&self, _key: &RequestKey) -> Result<Option<Claim>, StoreError> {
        Ok(None)
    }

    /// Takes settings that changed: where answers are kept may be one.
    fn configure(&self, _settings: &Settings) {}

    /// Keeps an answer, or a failure that was paid, and returns when it is durable: only then is it used. If it `may_wait`, other answers are
    /// under way, and it may be held for a moment to be written together with them.
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
