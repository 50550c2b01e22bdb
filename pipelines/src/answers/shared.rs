//! The answers of interactive sessions, opened with the first request. SQL may select a language model late or never,
//! and change the folder at any time.

use std::sync::{Arc, Mutex, PoisonError};

use asap_llm::chat::Outcome;
use asap_llm::request::RequestKey;
use asap_llm::store::{AnswerStore, Claim, StoreError};
use asap_udfs::Settings;
use async_trait::async_trait;
use tokio::sync::OnceCell;

use crate::answers::{AnswerFolder, shared};

/// The answers that belong to no output (`asap.cache.dir`).
#[derive(Debug)]
pub struct SharedAnswers {
    folder: Mutex<Arc<FolderOnce>>,
}

#[derive(Debug)]
struct FolderOnce {
    /// `asap.cache.dir`.
    dir: Option<String>,
    answers: OnceCell<AnswerFolder>,
}

impl FolderOnce {
    fn new(dir: Option<&str>) -> Arc<Self> {
        Arc::new(Self { dir: dir.map(str::to_string), answers: OnceCell::new() })
    }

    async fn answers(&self) -> Result<&AnswerFolder, StoreError> {
        let open = || async { AnswerFolder::open(&shared(self.dir.as_deref())?).await };
        self.answers.get_or_try_init(open).await.map_err(|error| StoreError(error.strip_backtrace()))
    }
}

impl SharedAnswers {
    pub fn new(settings: &Settings) -> Self {
        Self { folder: Mutex::new(FolderOnce::new(settings.cache_dir.as_deref())) }
    }

    fn current(&self) -> Arc<FolderOnce> {
        Arc::clone(&self.folder.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl AnswerStore for SharedAnswers {
    async fn get(&self, key: &RequestKey) -> Result<Option<Outcome>, StoreError> {
        self.current().answers().await?.get(key).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.current().answers().await?.check().await
    }

    async fn claim(&self, key: &RequestKey) -> Result<Option<Claim>, StoreError> {
        self.current().answers().await?.claim(key).await
    }

    fn use_folder(&self, dir: Option<&str>) {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        if folder.dir.as_deref() != dir {
            *folder = FolderOnce::new(dir);
        }
    }

    async fn keep(&self, key: RequestKey, outcome: Outcome, may_wait: bool) -> Result<(), StoreError> {
        self.current().answers().await?.keep(key, outcome, may_wait).await
    }
}
