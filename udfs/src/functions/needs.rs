//! What functions need: the models of their session, settings, and buffers to compare texts.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use asap_kernels::gestalt::Gestalt;
use asap_lm::example::ExampleTemplate;
use asap_lm::{Scorer, Tokenizer};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::Volatility;

use crate::anchor::Anchorers;
use crate::cache_reservation::CacheReservation;
use crate::models::Models;
use crate::settings::Settings;

/// Number of scored steps after which the session judges whether the model fits such text at all.
const JUDGED: u64 = 200;

#[derive(Clone)]
pub struct SessionModels {
    pub(crate) models: Models,
    pub(crate) anchorers: Anchorers,
    reservation: CacheReservation,
    chance: Arc<Chance>,
}

/// Counts of scored steps, and of those whose first token has more nats than a uniform draw from the vocabulary.
#[derive(Debug, Default)]
struct Chance {
    steps: AtomicU64,
    above: AtomicU64,
    is_reported: AtomicBool,
}

impl SessionModels {
    pub(crate) fn new(models: Models, anchorers: Anchorers) -> Self {
        Self { models, anchorers, reservation: CacheReservation::default(), chance: Arc::default() }
    }

    /// Counts first tokens of steps, `above` of them with more nats than `chance`. Warns once if the scoring model
    /// finds most of them no likelier than chance: then the order of steps is noise.
    pub(crate) fn count_chance(&self, steps: u64, above: u64, chance: f32) {
        let steps = self.chance.steps.fetch_add(steps, Ordering::Relaxed) + steps;
        let above = self.chance.above.fetch_add(above, Ordering::Relaxed) + above;
        let is_noise = steps >= JUDGED && 2 * above > steps;
        if is_noise && !self.chance.is_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the scoring model finds these chains no likelier than chance: {above} of {steps} steps begin with a token of \
                 more than {chance:.1} nats (ln of its vocabulary size). The choice of removed steps is noise; set \
                 asap.scorer.model to a model that was trained on such text"
            );
        }
    }

    /// Holds the scoring model for a statement: the same settings then find it again. If there is none, the first call
    /// reports why.
    pub(crate) fn hold_scorer(&self, context: &TaskContext) -> Option<Arc<dyn Any + Send + Sync>> {
        let scorer = self.models.scorer(context.session_config().options()).ok()?;
        Some(scorer)
    }

    pub(crate) fn count_remembered(&self, context: &TaskContext) {
        self.remember_in(context.memory_pool());
        self.recount_remembered();
    }

    pub(crate) fn remember_in(&self, pool: &Arc<dyn MemoryPool>) {
        self.reservation.move_to(pool);
    }

    /// Counts what the session remembers in the last known memory pool: a row function is not passed its query's pool.
    pub(crate) fn recount_remembered(&self) {
        self.reservation.resize([&**self.models.memory(), &**self.anchorers.llm().memory()]);
    }
}

/// What a row function needs. A need that depends on settings or models makes the function stable; others are
/// immutable.
pub(crate) trait Needs: Clone + Send + Sync {
    const VOLATILITY: Volatility;
    const ON_ALL_CORES: bool = false;

    fn load(session: &SessionModels, config: &ConfigOptions) -> Result<Self>;
}

impl Needs for () {
    const VOLATILITY: Volatility = Volatility::Immutable;

    fn load(_: &SessionModels, _: &ConfigOptions) -> Result<Self> {
        Ok(())
    }
}

impl Needs for Arc<Tokenizer> {
    const VOLATILITY: Volatility = Volatility::Stable;
    const ON_ALL_CORES: bool = true;

    fn load(session: &SessionModels, config: &ConfigOptions) -> Result<Self> {
        session.models.tokenizer(config)
    }
}

impl Needs for Arc<Scorer> {
    const VOLATILITY: Volatility = Volatility::Stable;
    const ON_ALL_CORES: bool = true;

    fn load(session: &SessionModels, config: &ConfigOptions) -> Result<Self> {
        session.models.scorer(config)
    }
}

impl Needs for Arc<ExampleTemplate> {
    const VOLATILITY: Volatility = Volatility::Stable;

    fn load(session: &SessionModels, config: &ConfigOptions) -> Result<Self> {
        session.models.examples(config)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub max_tokens: i64,
    pub ratio: f64,
}

impl Needs for Budget {
    const VOLATILITY: Volatility = Volatility::Stable;

    fn load(_: &SessionModels, config: &ConfigOptions) -> Result<Self> {
        let settings = Settings::of(config)?;
        Ok(Self { max_tokens: settings.refine_max_tokens, ratio: settings.refine_ratio.0 })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold(pub f64);

impl Needs for Threshold {
    const VOLATILITY: Volatility = Volatility::Stable;

    fn load(_: &SessionModels, config: &ConfigOptions) -> Result<Self> {
        Ok(Self(Settings::of(config)?.match_threshold.0))
    }
}

/// Compares texts with one that is prepared once, with or without difflib's `autojunk`.
#[derive(Debug, Clone)]
pub(crate) struct Compared<const AUTOJUNK: bool> {
    pub gestalt: Gestalt,
    prepared: Option<String>,
}

impl<const AUTOJUNK: bool> Compared<AUTOJUNK> {
    pub(super) fn ratio(&mut self, a: &str, b: &str) -> f64 {
        if self.prepared.as_deref() != Some(b) {
            self.gestalt.set_b(b);
            let prepared = self.prepared.get_or_insert_default();
            prepared.clear();
            prepared.push_str(b);
        }
        self.gestalt.ratio(a)
    }
}

impl<const AUTOJUNK: bool> Needs for Compared<AUTOJUNK> {
    const VOLATILITY: Volatility = Volatility::Immutable;

    fn load(_: &SessionModels, _: &ConfigOptions) -> Result<Self> {
        Ok(Self { gestalt: Gestalt::new(AUTOJUNK), prepared: None })
    }
}

impl<A: Needs, B: Needs> Needs for (A, B) {
    const VOLATILITY: Volatility = match (A::VOLATILITY, B::VOLATILITY) {
        (Volatility::Immutable, Volatility::Immutable) => Volatility::Immutable,
        _ => Volatility::Stable,
    };
    const ON_ALL_CORES: bool = A::ON_ALL_CORES || B::ON_ALL_CORES;

    fn load(session: &SessionModels, config: &ConfigOptions) -> Result<Self> {
        Ok((A::load(session, config)?, B::load(session, config)?))
    }
}
