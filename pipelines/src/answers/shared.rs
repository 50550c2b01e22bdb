//! The answers of interactive sessions, opened with the first request: SQL may choose a provider that asks a model late
//! or never.

use asap_udfs::Settings;
use asap_udfs::llm::store::{AnswerStore, Key, StoreError};
use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::{Answers, shared};

/// The answers that belong to no output (`asap.cache.dir`).
#[derive(Debug)]
pub struct SharedAnswers {
    settings: Settings,
    answers: OnceCell<Answers>,
}

impl SharedAnswers {
    /// The answers in the folder of these settings.
    pub fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone(), answers: OnceCell::new() }
    }

    async fn answers(&self) -> Result<&Answers, StoreError> {
        let open = || async { Answers::open(&shared(&self.settings)?).await };
        self.answers.get_or_try_init(open).await.map_err(|error| StoreError(error.strip_backtrace()))
    }
}

#[async_trait]
impl AnswerStore for SharedAnswers {
    async fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        self.answers().await?.get(key).await
    }

    async fn keep(&self, key: Key, answer: Vec<u8>, may_wait: bool) -> Result<(), StoreError> {
        self.answers().await?.keep(key, answer, may_wait).await
    }
}
