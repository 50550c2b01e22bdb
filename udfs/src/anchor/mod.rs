//! Anchorers. Stage 1 requests the direct thought from a question to its answer, and the chain pruned to what that
//! thought needs. `ai_complete` requests the answer to a row's own prompt.
//!
//! [`Anchorers::of`] chooses rules or a language model. [`Llm::model`] chooses the language model.
//! To add another kind of answer, implement [`Anchorer`]; to add another place to call a language model, implement
//! [`Chat`](asap_llm::chat::Chat).
//!
//! | module | holds |
//! |---|---|
//! | `algorithm1` | the check that an answer is a pruning of the chain |
//! | [`rules`] | the anchorer without a language model |
//! | [`language_model`] | the anchorer with one, and [`prompts`]: its prompts |
//! | `estimate` | the answers of a language model whose cost is only estimated |

mod algorithm1;
mod estimate;
pub(crate) mod language_model;
pub mod prompts;
pub mod rules;

use std::fmt::Debug;
use std::sync::Arc;

use asap_kernels::steps;
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use parking_lot::Mutex;

use crate::llm::failed;
use crate::settings::Settings;
use asap_llm::{FailureKind, Llm, Statement, Usage};
use language_model::LanguageModel;
use rules::Rules;

pub const OK: &str = "ok";
/// The status of a row without a direct thought, or without a question or an answer for one.
pub(crate) const NO_ANCHOR: &str = "no_anchor";
pub(crate) const EMPTY_CHAIN: &str = "empty_chain";
pub(crate) const NO_MATCH: &str = "no_match";

/// Writes direct thoughts, prunes by them, and answers a row's own prompts. A request that failed in the row's
/// statement is not sent again. An `Err` of a method ends the query; a failure of the row is its [`Refusal`].
#[async_trait]
pub(crate) trait Anchorer: Debug + Send + Sync {
    fn window(&self) -> usize;

    fn is_over(&self) -> bool {
        false
    }

    /// Writes the direct thought from a question to an answer that is not blank.
    async fn thought(
        &self,
        question: &str,
        answer: &str,
        statement: InStatement<'_>,
    ) -> asap_llm::Result<Anchored<String>>;

    /// Prunes a chain with at least one step by a direct thought.
    async fn pruning(&self, cot: &str, thought: &str, statement: InStatement<'_>)
    -> asap_llm::Result<Anchored<Pruned>>;

    async fn complete(&self, prompt: &str, statement: InStatement<'_>) -> asap_llm::Result<Anchored<String>>;
}

/// The statement of the row; None if there is none.
pub(crate) type InStatement<'a> = Option<&'a Arc<Statement>>;

impl dyn Anchorer + '_ {
    pub(crate) async fn anchor(
        &self,
        question: Option<&str>,
        answer: Option<&str>,
        statement: InStatement<'_>,
    ) -> asap_llm::Result<Anchored<String>> {
        let missing = |found| {
            let error = format!("a direct thought needs {found}");
            Ok(Anchored::unasked(Err(Refusal::new(NO_ANCHOR, error))))
        };
        match (question, answer) {
            (None, _) => missing("a question, found NULL"),
            (_, None) => missing("an answer, found NULL"),
            (_, Some(answer)) if steps::strip(answer).is_empty() => missing("an answer, found blank text"),
            (Some(question), Some(answer)) => self.thought(question, answer, statement).await,
        }
    }

    pub(crate) async fn coarse(
        &self,
        cot: Option<&str>,
        thought: Option<&str>,
        statement: InStatement<'_>,
    ) -> asap_llm::Result<Anchored<Pruned>> {
        let missing = |status, found| {
            let error = format!("a coarse pruning needs {found}");
            Ok(Anchored::unasked(Err(Refusal::new(status, error))))
        };
        match (cot, thought) {
            (_, None) => missing(NO_ANCHOR, "a direct thought, found NULL"),
            (None, _) => missing(EMPTY_CHAIN, "a chain of thought, found NULL"),
            (Some(cot), _) if steps::strip(cot).is_empty() => {
                missing(EMPTY_CHAIN, "a chain of thought, found one without a step")
            }
            (Some(cot), Some(thought)) => self.pruning(cot, thought, statement).await,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Anchored<T> {
    pub outcome: std::result::Result<T, Refusal>,
    pub spent: Spent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: &'static str,
    pub error: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Tokens of the prompts, cached answers included.
    pub tokens_in: u64,
    /// Tokens of the answers, cached ones included.
    pub tokens_out: u64,
    pub attempts: u32,
    /// The usage of the row itself, without what other rows and earlier sessions paid.
    pub own: Usage,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pruned {
    pub cot: String,
    /// For each step, the number (from 1) of the original step that it matched.
    pub kept: Vec<i64>,
    /// For each step, its Gestalt similarity to the step that it matched.
    pub similarity: Vec<f64>,
}

impl<T> Anchored<T> {
    pub(crate) fn unasked(outcome: std::result::Result<T, Refusal>) -> Self {
        Self { outcome, spent: Spent::default() }
    }

    pub fn status(&self) -> &'static str {
        self.outcome.as_ref().map_or_else(|refusal| refusal.status, |_| OK)
    }

    pub fn error(&self) -> Option<&str> {
        self.outcome.as_ref().err().map(|refusal| refusal.error.as_str())
    }
}

impl Refusal {
    pub(crate) fn new(status: &'static str, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    fn of_call(kind: FailureKind, error: impl Into<String>) -> Self {
        Self::new(kind.name(), error)
    }
}

impl Spent {
    /// Returns whether all answers of the row were available without a call of its own.
    pub(crate) fn is_cached(&self) -> bool {
        self.attempts > 0 && self.own.cache_hits == u64::from(self.attempts)
    }
}

type Last = Option<(Settings, Arc<dyn Anchorer>)>;

#[derive(Debug, Clone)]
pub(crate) struct Anchorers {
    llm: Llm,
    last: Arc<Mutex<Last>>,
}

impl Anchorers {
    pub(crate) fn new(llm: Llm) -> Self {
        Self { llm, last: Arc::default() }
    }

    pub(crate) fn llm(&self) -> &Llm {
        &self.llm
    }

    /// Returns the anchorer of these settings. Checks the settings, and reads the key from the environment and the
    /// prompts from their folder. Returns the same anchorer until a setting changes.
    pub(crate) fn of(&self, config: &ConfigOptions) -> Result<Arc<dyn Anchorer>> {
        let settings = Settings::of(config)?;
        let mut last = self.last.lock();
        if let Some((_, anchorer)) = last.as_ref().filter(|(known, anchorer)| known == settings && !anchorer.is_over())
        {
            return Ok(Arc::clone(anchorer));
        }
        let anchorer: Arc<dyn Anchorer> = match settings.anchor_provider.is_language_model() {
            false => Arc::new(Rules { separator: settings.chain_steps }),
            true => Arc::new(LanguageModel::new(settings, &self.llm)?),
        };
        *last = Some((settings.clone(), Arc::clone(&anchorer)));
        Ok(anchorer)
    }

    pub(crate) fn with_language_model(&self, config: &ConfigOptions) -> Result<Arc<dyn Anchorer>> {
        let settings = Settings::of(config)?;
        if !settings.anchor_provider.is_language_model() {
            // Returns the error that there is no language model.
            self.llm.model(&settings.language_model()).map_err(failed)?;
        }
        self.of(config)
    }
}
