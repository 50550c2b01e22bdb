//! What functions need: the models of their session, settings, and buffers to compare texts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use asap_kernels::front_end::Setting;
use asap_kernels::gestalt::Gestalt;
use asap_lm::example::ExampleTemplate;
use asap_lm::{PromptTemplate, Scorer, Tokenizer};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::logical_expr::Volatility;
use parking_lot::Mutex;

use crate::anchor::Anchorers;
use crate::losses::Losses;
use crate::models::Models;
use crate::settings::Settings;

/// Number of scored steps after which the session judges whether the model fits such text at all.
const JUDGED: u64 = 200;

/// Caches use at most 1 / `MOST` of the pool: queries fail if they find no room.
const MOST: usize = 4;

type Reserved = (Weak<dyn MemoryPool>, MemoryReservation);

#[derive(Clone)]
pub struct SessionModels {
    pub(crate) models: Models,
    pub(crate) anchorers: Anchorers,
    reserved: Arc<Mutex<Option<Reserved>>>,
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
        Self { models, anchorers, reserved: Arc::default(), chance: Arc::default() }
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
                 {} to a model that was trained on such text",
                Setting("asap.scorer.model")
            );
        }
    }

    pub(crate) fn count_remembered(&self, context: &TaskContext) {
        self.remember_in(context.memory_pool());
        self.recount_remembered();
    }

    /// Counts the session's caches in the memory of this pool from now on.
    pub(crate) fn remember_in(&self, pool: &Arc<dyn MemoryPool>) {
        let mut reserved = self.reserved.lock();
        // Setting a new memory limit in the engine creates a new pool.
        if !reserved.as_ref().is_some_and(|(of, _)| Weak::ptr_eq(of, &Arc::downgrade(pool))) {
            let reservation = MemoryConsumer::new("asap.cache.memory").register(pool);
            *reserved = Some((Arc::downgrade(pool), reservation));
        }
    }

    /// Reserves the current size of the caches in the last known pool: a row function is not passed its query's pool.
    /// Sets their limits: a quarter of the pool together, less if the pool is full.
    pub(crate) fn recount_remembered(&self) {
        let reserved = self.reserved.lock();
        let Some((pool, reservation)) = reserved.as_ref() else { return };
        let Some(pool) = pool.upgrade() else { return };
        let memories = [self.models.memory(), self.anchorers.llm().memory()];
        let has_room = reservation.try_resize(memories.iter().map(|memory| memory.used()).sum()).is_ok();
        let granted = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / MOST / memories.len(),
            _ => usize::MAX,
        };
        for memory in memories {
            memory.grant(if has_room { granted } else { granted.min(memory.used() / 2) });
        }
    }
}

/// What a row function needs. A need that depends on settings or models makes the function stable; others are
/// immutable.
pub(crate) trait Needs: Clone + Send + Sync + 'static {
    const VOLATILITY: Volatility = Volatility::Stable;
    const ON_ALL_CORES: bool = false;

    fn load(session: &SessionModels, config: &ConfigOptions) -> Result<Self>;
}

impl Needs for () {
    const VOLATILITY: Volatility = Volatility::Immutable;

    fn load(_: &SessionModels, _: &ConfigOptions) -> Result<Self> {
        Ok(())
    }
}

macro_rules! needs {
    ($($need:ty { $on_all_cores:literal, $load:expr })*) => {
        $(impl Needs for $need {
            const ON_ALL_CORES: bool = $on_all_cores;

            fn load(session: &SessionModels, config: &ConfigOptions) -> Result<Self> {
                let load: fn(&Models, &ConfigOptions) -> Result<Self> = $load;
                load(&session.models, config)
            }
        })*
    };
}

// What they load, after whether they are used on all cores.
needs! {
    Arc<Tokenizer> { true, Models::tokenizer }
    Arc<Scorer> { true, Models::scorer }
    Arc<ExampleTemplate> { false, Models::examples }
    Arc<PromptTemplate> { false, Models::prompt }
    Losses { false, |models, _| Ok(models.losses().clone()) }
    Settings { false, |_, config| Settings::of(config).cloned() }
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
