//! Where direct thoughts and coarse prunings come from.
//!
//! ```text
//! a row ─▶ anchoring ─▶ answers: known? under way? in the store? ──no──▶ chat ─▶ limits, budget, retries, breaker ─▶ HTTP
//!              ▲                              │                            │
//!              └──── used ◀── kept ◀──────────┴────────────────────────────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`anchoring`] | stage 1, row by row: direct thought, coarse pruning with Algorithm 1, a plain call |
//! | [`answers`], [`store`] | each answer is paid once: in memory, by single flight, and beyond the session |
//! | [`chat`], [`request`] | one question to a language model and its key |
//! | [`openai`], `response`, `retry`, `secret` | an endpoint over HTTP |
//! | [`local`] | a model in a folder |
//! | [`estimate`] | what a run would ask, without asking |
//! | `endpoint`, `throttle`, `breaker` | one object an endpoint: when calls may start, when to give it up |
//! | [`meter`], [`purse`] | what is used, what it may cost |
//! | `statement` | what a statement asked in vain |
//! | `prompts`, `fences` | what is asked and how an answer is unwrapped |
//! | `check` | settings that depend on each other |
//! | [`extractive`] | rules in place of a language model |

pub mod anchoring;
pub mod answers;
mod breaker;
pub mod chat;
mod check;
mod endpoint;
pub mod estimate;
pub mod extractive;
mod fences;
pub mod local;
pub mod meter;
pub mod openai;
pub mod prompts;
pub mod purse;
pub mod request;
mod response;
mod retry;
mod secret;
mod statement;
pub mod store;
mod throttle;

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{DataFusionError, config_err};
use datafusion::execution::TaskContext;

use crate::flights::Interrupted;
use crate::settings::{Provider, Settings};
pub use anchoring::{Anchor, Anchoring, Coarse, Completion, Spent};
use answers::Answers;
use chat::Chat;
pub use check::check;
use estimate::{Estimate, ReadOnly};
use local::{Local, LocalModel};
use meter::Meter;
pub use meter::Usage;
use openai::OpenAi;
use prompts::Prompts;
use purse::Purse;
pub use statement::Statement;
use statement::Statements;
use store::{AnswerStore, StoreError};

/// What ends a query that asks a language model; what ends only a row is its status.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LlmError {
    /// Too many calls to the endpoint failed.
    #[error("{0}")]
    EndpointDown(String),
    /// An answer could not be read or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime ended.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A request or an answer cannot be written as JSON.
    #[error("cannot write a request or an answer as JSON: {0}")]
    Request(String),
}

impl From<LlmError> for DataFusionError {
    fn from(error: LlmError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, LlmError>;

/// The language model of a session, with all that was asked and spent; its clones are the same one.
#[derive(Debug, Clone)]
pub struct Llm {
    session: Arc<Session>,
}

#[derive(Debug)]
struct Session {
    answers: Arc<Answers>,
    meter: Arc<Meter>,
    /// Whether rules answer, and nothing is paid.
    only_estimates: bool,
    /// Stage 1 under the settings that were last asked for.
    anchoring: Mutex<Option<(Settings, Arc<Anchoring>)>>,
    /// The local model that was last asked for, by its folder.
    local: Mutex<Option<(String, Arc<LocalModel>)>>,
    statements: Statements,
}

impl Llm {
    /// A language model whose answers are kept in `store`, if there is one.
    pub fn new(store: Option<Arc<dyn AnswerStore>>) -> Self {
        Self::with(store, false)
    }

    /// In place of a language model, rules that answer what `store` does not: nothing is paid, sent or kept, and
    /// [`Llm::usage`] is what would have been used, in tokens of the scoring model.
    pub fn estimate(store: Option<Arc<dyn AnswerStore>>) -> Self {
        Self::with(store.map(|store| Arc::new(ReadOnly(store)) as Arc<dyn AnswerStore>), true)
    }

    fn with(store: Option<Arc<dyn AnswerStore>>, only_estimates: bool) -> Self {
        let meter = Arc::new(Meter::default());
        let answers = Arc::new(Answers::new(store, Arc::clone(&meter)));
        let (anchoring, local, statements) = (Mutex::default(), Mutex::default(), Statements::default());
        Self { session: Arc::new(Session { answers, meter, only_estimates, anchoring, local, statements }) }
    }

    /// Stage 1 under these settings: they are checked, the key is read from the environment and the prompts from their
    /// folder. It is the same one until a setting changes.
    ///
    /// # Errors
    /// One that names the setting or file and what is wrong with it.
    pub fn anchoring(&self, settings: &Settings) -> datafusion::common::Result<Arc<Anchoring>> {
        let mut last = self.session.anchoring.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, anchoring)) = last.as_ref().filter(|(known, of)| known == settings && !of.is_over()) {
            return Ok(Arc::clone(anchoring));
        }
        check(settings)?;
        self.session.answers.configure(settings);
        let prompts = Prompts::load(settings.anchor_prompt_dir.as_deref())?;
        let (model, chat) = self.chat(settings)?;
        let answers = Arc::clone(&self.session.answers);
        let anchoring = Arc::new(Anchoring::new(settings, &model, prompts, chat, answers));
        *last = Some((settings.clone(), Arc::clone(&anchoring)));
        Ok(anchoring)
    }

    /// From now on what is spent comes out of a purse that other sessions share.
    pub fn spend_from(&self, purse: Arc<dyn Purse>) {
        self.session.meter.spend_from(purse);
    }

    /// Gives what was taken from the purse and not spent back to it.
    ///
    /// # Errors
    /// If the purse cannot be written.
    pub async fn give_back(&self) -> Result<()> {
        Ok(self.session.meter.give_back().await?)
    }

    /// Waits until every request that is under way is answered and its answer kept.
    pub async fn landed(&self) {
        self.session.answers.landed().await;
    }

    /// What the budget said when it first refused a call, whatever became of the row.
    pub fn budget_refusal(&self) -> Option<String> {
        self.session.meter.refusal()
    }

    /// The last failure of the endpoint, if no call of this session was answered.
    pub fn last_of_nothing_but_failures(&self) -> Option<String> {
        self.session.meter.last_of_nothing_but_failures()
    }

    /// Why no failure of this session's calls can be trusted to be its row's own: the model is down, or it denies.
    pub fn verdict(&self) -> Option<String> {
        if self.usage().calls == 0 {
            return None;
        }
        let last = self.session.anchoring.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().and_then(|(_, anchoring)| anchoring.verdict())
    }

    /// The statement that is executed in this context.
    pub fn statement(&self, context: &Arc<TaskContext>) -> Arc<Statement> {
        self.session.statements.of(context)
    }

    /// What the session's calls took so far.
    pub fn usage(&self) -> Usage {
        self.session.meter.usage()
    }

    /// The name under which requests ask the model of the settings, and what answers them.
    fn chat(&self, settings: &Settings) -> datafusion::common::Result<(String, Arc<dyn Chat>)> {
        let meter = Arc::clone(&self.session.meter);
        let (name, chat): (String, Arc<dyn Chat>) = match settings.anchor_provider {
            Provider::Openai => {
                let (base_url, key) = (check::base_url(settings)?, check::key(settings)?);
                let chat = OpenAi::new(settings, &base_url, key, Arc::clone(&meter))?;
                (check::model(settings)?.to_string(), Arc::new(chat))
            }
            Provider::Local => {
                let model = self.local(check::model(settings)?)?;
                (model.name().to_string(), Arc::new(Local::new(settings, model, Arc::clone(&meter))))
            }
            Provider::Extractive => {
                return config_err!(
                    "asap.anchor.provider = 'extractive' asks no language model; set it to 'openai' or 'local'"
                );
            }
        };
        Ok(if self.session.only_estimates { (name, Arc::new(Estimate::new(settings, meter)?)) } else { (name, chat) })
    }

    /// The model in a folder, which is loaded once.
    fn local(&self, folder: &str) -> datafusion::common::Result<Arc<LocalModel>> {
        let mut last = self.session.local.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, model)) = last.as_ref().filter(|(known, model)| known == folder && !model.is_over()) {
            return Ok(Arc::clone(model));
        }
        let model = Arc::new(LocalModel::load(folder)?);
        *last = Some((folder.to_string(), Arc::clone(&model)));
        Ok(model)
    }
}

impl Default for Llm {
    fn default() -> Self {
        Self::new(None)
    }
}

// Functions are equal when they share their language model: the engine compares functions to merge equal expressions.
impl PartialEq for Llm {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.session, &other.session)
    }
}

impl Eq for Llm {}

impl Hash for Llm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.session).hash(state);
    }
}
