//! Calls to a language model: limits, cost and answer cache. Nothing here depends on an engine: the crate `asap-udfs`
//! reads the settings and writes the requests.
//!
//! ```text
//! a request ─▶ answers: cached? in flight? in the store? ─no──▶ chat ─▶ limits, budget, retries, health ─▶ HTTP
//!     ▲                       │                                  │
//!     └──── used ◀── kept ◀───┴──────────────────────────────────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`answers`], [`store`] | each answer is paid once: cache, single flight, and storage beyond the session; failures of a statement |
//! | [`chat`], [`request`] | one request to a language model and its key |
//! | [`completions`] | whole responses to conversations, to evaluate a model |
//! | [`provider`], `openai` | what answers prompts, and the API of endpoints |
//! | `line`, `http`, `body`, `stream`, `response`, [`json`], `retry`, `secret` | an endpoint over HTTP |
//! | [`posts`] | requests to an endpoint that are no conversations, with the same limits |
//! | `local`, [`local_model`] | a model in this process |
//! | `endpoint`, [`throttle`] | one object per endpoint, and when calls may start |
//! | `health` | whether an endpoint is down, and whether failed rows may be its fault |
//! | [`form`], `refusal` | what an endpoint accepts of a request, learnt from its refusals |
//! | [`meter`] | usage and limits |
//! | [`config`] | the settings, and checks of those that depend on each other |
//! | [`flights`] | one computation for equal requests |

pub mod chat;
pub mod completions;
pub mod flights;
mod learn;
mod local;
pub mod local_model;
mod pay;
pub mod provider;
pub mod request;
mod send;
pub mod usage;

use std::any::Any;
use std::error::Error;
use std::sync::Arc;

use asap_kernels::front_end::Setting;
use asap_kernels::memo::Memory;
use parking_lot::Mutex;

use chat::{CallError, Chat, Defaults};
pub use chat::{FailureKind, Standing};
use flights::Interrupted;
pub use learn::form;
use local::Local;
use local_model::{LocalModel, OpenLocal};
pub use pay::answers::Statement;
use pay::answers::{Answers, Statements};
use pay::meter::Meter;
use pay::store::{AnswerStore, Purse, StoreError};
pub use pay::{answers, meter, store};
use provider::Provider;
pub use send::config::Config;
use send::health::OwnCalls;
use send::http::HttpChat;
pub use send::{config, json, posts, throttle};
pub use usage::Usage;

/// An error that ends a query with calls to a language model. The failure of one row is its status instead.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LlmError {
    /// A setting is wrong. The message names the setting and the problem.
    #[error("{0}")]
    Setting(String),
    #[error("{0}")]
    EndpointDown(String),
    /// The endpoint does not answer now. Repeating the command helps later.
    #[error("{0}")]
    Unreachable(String),
    /// The local model cannot be opened, for the cause that its engine has.
    #[error(transparent)]
    Local(Arc<dyn Error + Send + Sync>),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("cannot write a request or an answer as JSON: {0}")]
    Request(String),
}

impl From<CallError> for LlmError {
    /// The error that a call ends a query with.
    fn from(error: CallError) -> Self {
        match error.kind {
            FailureKind::Unreachable => Self::Unreachable(error.message),
            _ => Self::EndpointDown(error.message),
        }
    }
}

pub type Result<T> = std::result::Result<T, LlmError>;

/// The language model of a session, with its answers and usage. Clones share them.
#[derive(Debug, Clone)]
pub struct Llm {
    answers: Arc<Answers>,
    meter: Arc<Meter>,
    memory: Arc<Memory>,
    only_estimates: bool,
    model: Last<Config, Arc<Model>>,
    local: Last<String, Arc<dyn LocalModel>>,
    own: Arc<Mutex<OwnCalls>>,
    statements: Arc<Statements>,
}

/// The value that was opened last, with its key.
type Last<K, V> = Arc<Mutex<Option<(K, V)>>>;

#[derive(Debug)]
pub struct Model {
    pub name: String,
    pub chat: Arc<dyn Chat>,
    /// How many rows should wait at once.
    pub window: usize,
    /// How many conversations should wait at once.
    pub conversations: usize,
}

impl Llm {
    pub fn new(store: Option<Arc<dyn AnswerStore>>) -> Self {
        Self::with(store, false)
    }

    /// Creates a language model that is never called. The crate `asap-udfs` estimates what `store` does not have; nothing
    /// is paid, sent or kept. [`Llm::usage`] is the estimated usage, in tokens of the scoring model.
    pub fn estimate(store: Option<Arc<dyn AnswerStore>>) -> Self {
        Self::with(store, true)
    }

    fn with(store: Option<Arc<dyn AnswerStore>>, only_estimates: bool) -> Self {
        let (meter, memory) = (Arc::new(Meter::default()), Arc::new(Memory::default()));
        let answers = Arc::new(Answers::new(store, !only_estimates, Arc::clone(&meter), &memory));
        let (model, local, own, statements) = Default::default();
        Self { answers, meter, memory, only_estimates, model, local, own, statements }
    }

    /// Returns the model of these settings. Checks the settings and reads the key from the environment. Returns the
    /// same model until a setting changes.
    ///
    /// # Errors
    /// If a setting is wrong. The error names the setting and the problem.
    pub fn model(&self, config: &Config) -> Result<Arc<Model>> {
        let mut last = self.model.lock();
        if let Some((_, model)) = last.as_ref().filter(|(known, of)| known == config && !of.chat.is_over()) {
            return Ok(Arc::clone(model));
        }
        config.check()?;
        self.memory.limit(config.cache_memory);
        self.answers.use_folder(config.cache_folder.as_deref());
        let model = Arc::new(self.open(config)?);
        *last = Some((config.clone(), Arc::clone(&model)));
        Ok(model)
    }

    /// Returns whether no call is made.
    pub fn only_estimates(&self) -> bool {
        self.only_estimates
    }

    pub fn answers(&self) -> Arc<Answers> {
        Arc::clone(&self.answers)
    }

    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Makes all further spending come from a purse that other sessions share.
    pub fn spend_from(&self, purse: Arc<dyn Purse>) {
        self.meter.spend_from(purse);
    }

    /// Settles the purse: the amount taken becomes the amount spent.
    ///
    /// # Errors
    /// If the purse cannot be written.
    pub async fn settle(&self) -> Result<()> {
        Ok(self.meter.settle().await?)
    }

    /// Waits until every request in flight is answered and its answer kept.
    pub async fn drained(&self) {
        self.answers.drained().await;
    }

    /// Returns the message of the first call that a limit rejected, whatever happened to its row.
    pub fn budget_refusal(&self) -> Option<String> {
        self.meter.refusal()
    }

    /// Returns whether failed rows of the session may be committed, or whether the endpoint may be the cause.
    pub fn standing(&self) -> Standing {
        let last = self.model.lock();
        last.as_ref().map_or(Standing::Sound, |(_, model)| model.chat.standing(self.usage().calls))
    }

    /// Returns the endpoint's failure that a command without further calls ends with, if there is one.
    pub fn failure(&self) -> Option<LlmError> {
        match self.standing() {
            Standing::Failing(error) => Some(error.into()),
            Standing::Sound | Standing::Doubtful => None,
        }
    }

    /// Returns the sampling parameters that answers of the session did not get from their requests, but from the
    /// endpoint.
    pub fn defaults(&self) -> Defaults {
        self.meter.defaults()
    }

    /// Returns the statement of the engine's context, which all parts of a running statement share.
    pub fn statement<Context: Any + Send + Sync>(&self, context: &Arc<Context>) -> Arc<Statement> {
        let context: Arc<dyn Any + Send + Sync> = Arc::clone(context) as _;
        self.statements.of(&context)
    }

    pub fn usage(&self) -> Usage {
        self.meter.usage()
    }

    fn open(&self, config: &Config) -> Result<Model> {
        let (meter, own) = (self.meter(), Arc::clone(&self.own));
        let provider = config.provider;
        match provider {
            Provider::Openai => {
                let chat = Arc::new(HttpChat::new(config, meter, own)?);
                let window = chat.window();
                Ok(Model { name: config.model()?.to_string(), window, conversations: window, chat })
            }
            Provider::Local => {
                let model = self.local(config)?;
                let (name, conversations) = (model.name().to_string(), model.conversations_in_flight());
                let chat = Arc::new(Local::new(config, model, meter, own));
                Ok(Model { name, window: local::ROWS_IN_FLIGHT, conversations, chat })
            }
            Provider::Extractive => Err(LlmError::Setting(format!(
                "{} = '{provider}' asks no language model; set it to 'openai' or 'local'",
                Setting("asap.anchor.provider")
            ))),
        }
    }

    fn local(&self, config: &Config) -> Result<Arc<dyn LocalModel>> {
        let (folder, OpenLocal(open)) = (config.model()?, config.open_local);
        let mut last = self.local.lock();
        if let Some((_, model)) = last.as_ref().filter(|(known, model)| known == folder && !model.is_over()) {
            return Ok(Arc::clone(model));
        }
        let model = open(folder, &self.memory)?;
        *last = Some((folder.to_string(), Arc::clone(&model)));
        Ok(model)
    }
}

impl Default for Llm {
    fn default() -> Self {
        Self::new(None)
    }
}
