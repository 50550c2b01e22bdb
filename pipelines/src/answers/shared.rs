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

type OpenedOnce = Arc<OnceCell<Arc<AnswerFolder>>>;

/// The answers that belong to no output: the folder (`asap.cache.dir`), and its answers.
#[derive(Debug)]
pub struct SharedAnswers(Mutex<(Option<String>, OpenedOnce)>);

impl SharedAnswers {
    pub fn new(settings: &Settings) -> Self {
        Self(Mutex::new((settings.cache_dir.clone(), Arc::default())))
    }

    async fn answers(&self) -> Result<Arc<AnswerFolder>, StoreError> {
        let (dir, answers) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let open = async || Ok(Arc::new(AnswerFolder::open(&shared(dir.as_deref())?).await?));
        let opened: datafusion::common::Result<_> = answers.get_or_try_init(open).await.cloned();
        opened.map_err(|error| StoreError(error.strip_backtrace()))
    }
}

#[async_trait]
impl AnswerStore for SharedAnswers {
    async fn get(&self, key: &RequestKey) -> Result<Option<Outcome>, StoreError> {
        self.answers().await?.get(key).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.answers().await?.check().await
    }

    async fn claim(&self, key: &RequestKey) -> Result<Option<Claim>, StoreError> {
        self.answers().await?.claim(key).await
    }

    fn use_folder(&self, dir: Option<&str>) {
        let mut folder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if folder.0.as_deref() != dir {
            *folder = (dir.map(str::to_string), Arc::default());
        }
    }

    async fn keep(&self, key: RequestKey, outcome: Outcome, may_wait: bool) -> Result<(), StoreError> {
        self.answers().await?.keep(key, outcome, may_wait).await
    }
}
