//! Who answers. Stage 1 asks for the direct thought from a question to its answer, and for the chain cut down to what that
//! thought needs; `ai_complete` for an answer to a prompt of the row's own.
//!
//! That rules, a language model or an estimate of one answer is decided in [`Anchorers::of`]; which language model, in
//! [`Llm::model`]. Another way to answer is an [`Anchorer`]; another place to ask a language model at is a
//! [`Chat`](crate::llm::chat::Chat).
//!
//! | module | holds |
//! |---|---|
//! | `algorithm1` | whether an answer is a pruning of the chain |
//! | [`rules`] | who answers without a language model |
//! | [`language_model`] | who answers with one, and [`prompts`]: what it is asked |
//! | `estimate` | who answers in place of one, to tell what a run would cost |

mod algorithm1;
mod estimate;
pub(crate) mod language_model;
pub mod prompts;
pub mod rules;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use asap_kernels::steps;
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;

use crate::llm::{self, FailureKind, Llm, Statement, Usage};
use crate::settings::{Provider, Settings};
use estimate::Estimate;
use language_model::LanguageModel;
use rules::Rules;

/// The status of a row that has what was asked for.
pub const OK: &str = "ok";
/// The status of a row without a direct thought, or without what one is made of.
pub(crate) const NO_ANCHOR: &str = "no_anchor";
/// The status of a row whose chain is NULL or has no step.
pub(crate) const EMPTY_CHAIN: &str = "empty_chain";
pub(crate) const NO_MATCH: &str = "no_match";

/// Who writes direct thoughts, prunes by them, and answers prompts of a row's own, for rows of a statement: what failed in it
/// is not asked again. Each method's error ends the query; what fails a row is its refusal.
#[async_trait]
pub(crate) trait Anchorer: Debug + Send + Sync {
    fn window(&self) -> usize;

    fn is_over(&self) -> bool {
        false
    }

    async fn anchor(
        &self,
        question: Option<&str>,
        answer: Option<&str>,
        statement: Option<&Arc<Statement>>,
    ) -> llm::Result<Row<String>>;

    async fn coarse(
        &self,
        cot: Option<&str>,
        thought: Option<&str>,
        statement: Option<&Arc<Statement>>,
    ) -> llm::Result<Row<Pruned>>;

    async fn complete(&self, prompt: &str, statement: Option<&Arc<Statement>>) -> llm::Result<Row<String>>;
}

/// What came of a row, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<T> {
    /// What was asked for, or why there is none.
    pub outcome: std::result::Result<T, Refusal>,
    /// What it took.
    pub spent: Spent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: &'static str,
    pub error: String,
}

/// What the answers of a row took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Tokens of the prompts, also where the answers were there already.
    pub tokens_in: u64,
    /// Tokens of the answers, likewise.
    pub tokens_out: u64,
    /// Answers that were asked for.
    pub attempts: u32,
    /// What the row itself used: what other rows and earlier sessions paid is no part of it.
    pub own: Usage,
}

/// A pruning that Algorithm 1 accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruned {
    /// The steps that are left, joined by a blank line.
    pub cot: String,
    /// The place in the original chain of the step that each matched, from 1.
    pub kept: Vec<i64>,
    /// The Gestalt similarity of each to the step that it matched.
    pub similarity: Vec<f64>,
}

impl<T> Row<T> {
    pub(crate) fn unasked(outcome: std::result::Result<T, Refusal>) -> Self {
        Self { outcome, spent: Spent::default() }
    }

    /// `ok`, or why there is no result.
    pub fn status(&self) -> &'static str {
        self.outcome.as_ref().map_or_else(|refusal| refusal.status, |_| OK)
    }

    /// What was expected and what was found, where there is no result.
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
    /// Whether all answers that the row asked for were there without a call of its own.
    pub(crate) fn is_cached(&self) -> bool {
        self.attempts > 0 && self.own.cache_hits == u64::from(self.attempts)
    }
}

fn question_and_answer<'a>(
    question: Option<&'a str>,
    answer: Option<&'a str>,
) -> std::result::Result<(&'a str, &'a str), Refusal> {
    let missing = |error: &str| Refusal::new(NO_ANCHOR, error);
    let question = question.ok_or_else(|| missing("a direct thought needs a question, found NULL"))?;
    let answer = answer.ok_or_else(|| missing("a direct thought needs an answer, found NULL"))?;
    if steps::strip(answer).is_empty() {
        return Err(missing("a direct thought needs an answer, found blank text"));
    }
    Ok((question, answer))
}

/// The chain, its steps and the thought that a coarse pruning is made of.
fn chain_and_thought<'a>(
    cot: Option<&'a str>,
    thought: Option<&'a str>,
) -> std::result::Result<(&'a str, Vec<&'a str>, &'a str), Refusal> {
    let missing = |status, error: &str| Refusal::new(status, error);
    let thought = thought.ok_or_else(|| missing(NO_ANCHOR, "a coarse pruning needs a direct thought, found NULL"))?;
    let cot = cot.ok_or_else(|| missing(EMPTY_CHAIN, "a coarse pruning needs a chain of thought, found NULL"))?;
    let original = steps::steps(cot);
    if original.is_empty() {
        return Err(missing(EMPTY_CHAIN, "a coarse pruning needs a chain of thought, found one without a step"));
    }
    Ok((cot, original, thought))
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

    /// Who answers under these settings: they are checked, the key is read from the environment and the prompts from their
    /// folder. It is the same one until a setting changes.
    pub(crate) fn of(&self, config: &ConfigOptions) -> Result<Arc<dyn Anchorer>> {
        let settings = Settings::of(config)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, anchorer)) = last.as_ref().filter(|(known, anchorer)| known == settings && !anchorer.is_over())
        {
            return Ok(Arc::clone(anchorer));
        }
        let anchorer: Arc<dyn Anchorer> = match settings.anchor_provider {
            Provider::Extractive => Arc::new(Rules),
            Provider::Openai | Provider::Local => {
                let model = LanguageModel::new(settings, &self.llm)?;
                match self.llm.only_estimates() {
                    true => Arc::new(Estimate::new(settings, model, &self.llm)?),
                    false => Arc::new(model),
                }
            }
        };
        *last = Some((settings.clone(), Arc::clone(&anchorer)));
        Ok(anchorer)
    }

    pub(crate) fn with_language_model(&self, config: &ConfigOptions) -> Result<Arc<dyn Anchorer>> {
        let settings = Settings::of(config)?;
        if !settings.anchor_provider.is_language_model() {
            // Says that there is none.
            self.llm.model(settings)?;
        }
        self.of(config)
    }
}

// Functions are equal when they share who answers: the engine compares functions to merge equal expressions.
impl PartialEq for Anchorers {
    fn eq(&self, other: &Self) -> bool {
        self.llm == other.llm
    }
}

impl Eq for Anchorers {}

impl std::hash::Hash for Anchorers {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.llm.hash(state);
    }
}
