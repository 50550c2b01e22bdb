//! Calls to a language model: limits, cost and answer cache. [`crate::anchor`] writes the requests.
//!
//! ```text
//! a request ─▶ answers: cached? in flight? in the store? ─no──▶ chat ─▶ limits, budget, retries, breaker ─▶ HTTP
//!     ▲                       │                                  │
//!     └──── used ◀── kept ◀───┴──────────────────────────────────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`answers`], [`store`] | each answer is paid once: cache, single flight, and storage beyond the session |
//! | [`chat`], [`request`] | one request to a language model and its key |
//! | [`completions`] | whole responses to conversations, to evaluate a model |
//! | [`provider`], `api`, `openai` | what differs between providers |
//! | `http`, `response`, `json`, `retry`, `secret` | an endpoint over HTTP |
//! | [`local`] | a model in a folder |
//! | `endpoint`, `throttle`, `breaker` | one object per endpoint: when calls may start, and whether it is down |
//! | `form`, `refusal` | what an endpoint accepts of a request, learnt from its refusals |
//! | [`meter`], [`purse`] | usage and limits |
//! | `health` | whether a session's failures may be the endpoint's |
//! | `statement` | the failed requests of a statement |
//! | `check` | settings that depend on each other |

pub mod answers;
mod api;
mod breaker;
pub mod chat;
mod check;
pub mod completions;
mod endpoint;
mod form;
mod health;
mod http;
mod json;
pub mod local;
pub mod meter;
mod openai;
pub mod provider;
pub mod purse;
mod refusal;
pub mod request;
mod response;
mod retry;
mod secret;
mod statement;
pub mod store;
mod throttle;
pub mod usage;

use std::sync::Arc;

use asap_lm::memo::Memory;
use datafusion::common::{DataFusionError, config_err};
use datafusion::execution::TaskContext;
use parking_lot::Mutex;

use crate::flights::Interrupted;
use crate::settings::Settings;
use answers::Answers;
pub use chat::FailureKind;
use chat::{Chat, Defaults};
use check::check;
use http::HttpChat;
use local::{Local, LocalModel};
use meter::Meter;
use provider::{Kind, Provider};
use purse::Purse;
pub use statement::Statement;
use statement::Statements;
use store::{AnswerStore, ReadOnly, StoreError};
pub use usage::Usage;

/// An error that ends a query with calls to a language model. The failure of one row is its status instead.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LlmError {
    #[error("{0}")]
    EndpointDown(String),
    /// There is no connection to the endpoint, and no call of the session was answered before.
    #[error("{0}")]
    Unreachable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("cannot write a request or an answer as JSON: {0}")]
    Request(String),
}

impl From<LlmError> for DataFusionError {
    fn from(error: LlmError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

pub type Result<T> = std::result::Result<T, LlmError>;

/// The language model of a session, with its answers and usage. Clones share them.
#[derive(Debug, Clone)]
pub struct Llm {
    session: Arc<Session>,
}

#[derive(Debug)]
struct Session {
    answers: Arc<Answers>,
    meter: Arc<Meter>,
    memory: Arc<Memory>,
    only_estimates: bool,
    model: Mutex<Option<(Settings, Arc<Model>)>>,
    local: Mutex<Option<(String, Arc<LocalModel>)>>,
    statements: Statements,
}

#[derive(Debug)]
pub struct Model {
    pub name: String,
    pub chat: Arc<dyn Chat>,
    pub window: usize,
}

impl Llm {
    pub fn new(store: Option<Arc<dyn AnswerStore>>) -> Self {
        Self::with(store, false)
    }

    /// Creates a language model that is never called. [`crate::anchor`] estimates what `store` does not have; nothing
    /// is paid, sent or kept. [`Llm::usage`] is the estimated usage, in tokens of the scoring model.
    pub fn estimate(store: Option<Arc<dyn AnswerStore>>) -> Self {
        Self::with(store.map(|store| Arc::new(ReadOnly(store)) as Arc<dyn AnswerStore>), true)
    }

    fn with(store: Option<Arc<dyn AnswerStore>>, only_estimates: bool) -> Self {
        let (meter, memory) = (Arc::new(Meter::default()), Arc::new(Memory::default()));
        let answers = Arc::new(Answers::new(store, Arc::clone(&meter), &memory));
        let (model, local, statements) = (Mutex::default(), Mutex::default(), Statements::default());
        Self { session: Arc::new(Session { answers, meter, memory, only_estimates, model, local, statements }) }
    }

    /// Returns the model of these settings. Checks the settings and reads the key from the environment. Returns the
    /// same model until a setting changes.
    ///
    /// # Errors
    /// If a setting is wrong. The error names the setting and the problem.
    pub fn model(&self, settings: &Settings) -> datafusion::common::Result<Arc<Model>> {
        let mut last = self.session.model.lock();
        if let Some((_, model)) = last.as_ref().filter(|(known, of)| known == settings && !of.chat.is_over()) {
            return Ok(Arc::clone(model));
        }
        check(settings)?;
        self.session.memory.limit(settings.cache_memory.0);
        self.session.answers.configure(settings);
        let model = Arc::new(self.open(settings)?);
        *last = Some((settings.clone(), Arc::clone(&model)));
        Ok(model)
    }

    pub(crate) fn only_estimates(&self) -> bool {
        self.session.only_estimates
    }

    pub fn answers(&self) -> Arc<Answers> {
        Arc::clone(&self.session.answers)
    }

    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.session.meter)
    }

    pub fn memory(&self) -> &Arc<Memory> {
        &self.session.memory
    }

    /// Makes all further spending come from a purse that other sessions share.
    pub fn spend_from(&self, purse: Arc<dyn Purse>) {
        self.session.meter.spend_from(purse);
    }

    /// Settles the purse: the amount taken becomes the amount spent.
    ///
    /// # Errors
    /// If the purse cannot be written.
    pub async fn settle(&self) -> Result<()> {
        Ok(self.session.meter.settle().await?)
    }

    /// Waits until every request in flight is answered and its answer kept.
    pub async fn landed(&self) {
        self.session.answers.landed().await;
    }

    /// Returns the message of the first call that a limit rejected, whatever happened to its row.
    pub fn budget_refusal(&self) -> Option<String> {
        self.session.meter.refusal()
    }

    /// Returns a message with the last failure if calls were made and none of them was answered.
    pub fn unanswered(&self) -> Option<String> {
        let health = self.session.meter.health.lock();
        let last = health.unanswered()?;
        Some(format!("none of {} calls was answered; the last failure: {last}", self.usage().calls))
    }

    /// Returns why this session's failures may not be the rows' own: the model is down, or it denies requests.
    pub fn verdict(&self) -> Option<String> {
        if self.usage().calls == 0 {
            return None;
        }
        let last = self.session.model.lock();
        last.as_ref().and_then(|(_, model)| model.chat.verdict())
    }

    /// Returns whether the last calls were rejected with the same words. Enough of them are a [`Llm::verdict`].
    pub fn is_in_doubt(&self) -> bool {
        let last = self.session.model.lock();
        let may_all_fail = last.as_ref().is_some_and(|(settings, _)| settings.anchor_max_error_rate.0 >= 1.0);
        !may_all_fail && self.session.meter.health.lock().is_in_doubt()
    }

    /// Returns the sampling parameters that answers of the session did not get from their requests, but from the
    /// endpoint.
    pub fn defaults(&self) -> Defaults {
        self.session.meter.add_defaults(Defaults::default())
    }

    pub fn statement(&self, context: &Arc<TaskContext>) -> Arc<Statement> {
        self.session.statements.of(context)
    }

    pub fn usage(&self) -> Usage {
        self.session.meter.usage()
    }

    fn open(&self, settings: &Settings) -> datafusion::common::Result<Model> {
        let meter = self.meter();
        let provider = settings.anchor_provider;
        match provider.kind() {
            Kind::Endpoint(api) => {
                let (base_url, key) = (check::base_url(settings, api)?, check::key(settings)?);
                let chat = Arc::new(HttpChat::new(api, settings, &base_url, key, meter)?);
                Ok(Model { name: check::model(settings)?.to_string(), window: chat.window(), chat })
            }
            Kind::Folder => {
                let model = self.local(check::model(settings)?)?;
                let name = model.name().to_string();
                Ok(Model { name, window: local::ROWS_IN_FLIGHT, chat: Arc::new(Local::new(settings, model, meter)) })
            }
            Kind::Rules => {
                let models = Provider::language_models();
                config_err!("asap.anchor.provider = '{provider}' asks no language model; set it to {models}")
            }
        }
    }

    fn local(&self, folder: &str) -> datafusion::common::Result<Arc<LocalModel>> {
        let mut last = self.session.local.lock();
        if let Some((_, model)) = last.as_ref().filter(|(known, model)| known == folder && !model.is_over()) {
            return Ok(Arc::clone(model));
        }
        let model = Arc::new(LocalModel::load(folder, &self.session.memory)?);
        *last = Some((folder.to_string(), Arc::clone(&model)));
        Ok(model)
    }
}

impl Default for Llm {
    fn default() -> Self {
        Self::new(None)
    }
}

#[cfg(test)]
mod tests;
