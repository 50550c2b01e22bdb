//! The answers of interactive sessions, opened with the first request. SQL may select a language model late or never,
//! and change the folder at any time.

use std::sync::{Arc, Mutex, PoisonError};

use asap_udfs::Settings;
use asap_udfs::llm::chat::Outcome;
use asap_udfs::llm::store::{AnswerStore, Claim, RequestKey, StoreError};
use async_trait::async_trait;
use tokio::sync::OnceCell;

use crate::answers::{AnswerFolder, shared};

/// The answers that belong to no output (`asap.cache.dir`).
#[derive(Debug)]
pub struct SharedAnswers {
    folder: Mutex<Arc<Opened>>,
}

#[derive(Debug)]
struct Opened {
    settings: Settings,
    answers: OnceCell<AnswerFolder>,
}

impl Opened {
    fn new(settings: &Settings) -> Arc<Self> {
        Arc::new(Self { settings: settings.clone(), answers: OnceCell::new() })
    }

    async fn answers(&self) -> Result<&AnswerFolder, StoreError> {
        let open = || async { AnswerFolder::open(&shared(&self.settings)?).await };
        self.answers.get_or_try_init(open).await.map_err(|error| StoreError(error.strip_backtrace()))
    }
}

impl SharedAnswers {
    pub fn new(settings: &Settings) -> Self {
        Self { folder: Mutex::new(Opened::new(settings)) }
    }

    fn opened(&self) -> Arc<Opened> {
        Arc::clone(&self.folder.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl AnswerStore for SharedAnswers {
    async fn get(&self, key: &RequestKey) -> Result<Option<Outcome>, StoreError> {
        self.opened().answers().await?.get(key).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.opened().answers().await?.check().await
    }

    async fn claim(&self, key: &RequestKey) -> Result<Option<Claim>, StoreError> {
        self.opened().answers().await?.claim(key).await
    }

    fn configure(&self, settings: &Settings) {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        if folder.settings.cache_dir != settings.cache_dir {
            *folder = Opened::new(settings);
        }
    }

    async fn keep(&self, key: RequestKey, outcome: Outcome, may_wait: bool) -> Result<(), StoreError> {
        self.opened().answers().await?.keep(key, outcome, may_wait).await
    }
}
