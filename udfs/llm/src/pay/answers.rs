//! Every answer is paid once: equal requests share it, and it is durable before it is used. A statement sends a request
//! that failed only once, and reports its failures at its end.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use asap_kernels::memo::{Memo, Memory, share};
use parking_lot::Mutex;

use crate::chat::{CallError, Chat, FailureKind, Outcome, Reply};
use crate::flights::{Callers, SingleFlight};
use crate::pay::meter::Meter;
use crate::pay::store::AnswerStore;
use crate::request::{ChatRequest, RequestKey};
use crate::usage::Usage;
use crate::{LlmError, Result};

/// How often the end of the calls in flight is checked.
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Answers {
    shared: Arc<Shared>,
    flights: SingleFlight<RequestKey, Result<Answered>>,
}

#[derive(Debug)]
struct Shared {
    memo: Memo<RequestKey, Outcome>,
    store: Option<Arc<dyn AnswerStore>>,
    /// Whether the store keeps new answers. Those of an estimate are not kept.
    keeps: bool,
    meter: Arc<Meter>,
    /// Each call in flight holds a clone.
    in_flight: Arc<()>,
}

#[derive(Debug, Clone)]
pub struct Answered {
    pub outcome: Arc<Outcome>,
    pub used: Usage,
    /// Whether no call was made for this outcome.
    pub(crate) is_cached: bool,
}

impl Answered {
    /// Creates the outcome of a request without a call; its usage is not counted yet.
    fn without_call(outcome: Arc<Outcome>) -> Self {
        Self { outcome, used: Usage::default(), is_cached: true }
    }
}

impl Answers {
    pub(crate) fn new(
        store: Option<Arc<dyn AnswerStore>>,
        keeps: bool,
        meter: Arc<Meter>,
        memory: &Arc<Memory>,
    ) -> Self {
        let memo = Memo::new(memory, share::ANSWERS);
        Self {
            shared: Arc::new(Shared { memo, store, keeps, meter, in_flight: Arc::default() }),
            flights: SingleFlight::default(),
        }
    }

    /// Returns the answer to a request: from the cache, the store, an equal request in flight, or a call.
    ///
    /// # Errors
    /// If the store fails, the endpoint is down, or the runtime shuts down. The query must then end.
    pub async fn ask(
        &self,
        chat: &Arc<dyn Chat>,
        request: ChatRequest,
        statement: Option<&Arc<Statement>>,
    ) -> Result<Answered> {
        let key = request.key().map_err(|error| LlmError::Request(error.to_string()))?;
        let mut answered = match statement.and_then(|statement| statement.failure(&key)) {
            Some(outcome) => Answered::without_call(outcome),
            None => {
                let (shared, chat, first) = (Arc::clone(&self.shared), Arc::clone(chat), statement.cloned());
                let asking = |callers| async move { shared.answer(key, &*chat, &request, &callers, first).await };
                let (answered, joined) = self.flights.join(key, asking).await?;
                let answered = answered?;
                if joined { Answered::without_call(answered.outcome) } else { answered }
            }
        };
        let is_lost = answered.outcome.as_ref().as_ref().is_err_and(|error| !is_final(error));
        match &*answered.outcome {
            Ok(answer) => self.shared.meter.add_defaults(answer.defaults),
            Err(error) => statement.iter().for_each(|statement| statement.count(error)),
        }
        if let Some(statement) = statement.filter(|_| is_lost) {
            statement.fail(key, &answered.outcome);
        }
        if answered.is_cached {
            let (failed, cache_hits) = if is_lost { (1, 0) } else { (0, 1) };
            answered.used = self.shared.meter.count(Usage { failed, cache_hits, ..Usage::default() });
        }
        Ok(answered)
    }

    pub(crate) fn use_folder(&self, folder: Option<&str>) {
        if let Some(store) = &self.shared.store {
            store.use_folder(folder);
        }
    }

    pub(crate) async fn drained(&self) {
        while self.flights.any() {
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Shared {
    async fn answer(
        &self,
        key: RequestKey,
        chat: &dyn Chat,
        request: &ChatRequest,
        callers: &Arc<Callers>,
        statement: Option<Arc<Statement>>,
    ) -> Result<Answered> {
        if let Some(outcome) = self.memo.get(&key) {
            return Ok(Answered::without_call(outcome));
        }
        if let Some(outcome) = self.stored(&key).await? {
            return Ok(Answered::without_call(self.remember(key, outcome)));
        }
        let keeping = self.store.as_ref().filter(|_| self.keeps);
        let mut claim = None;
        if let Some(store) = keeping {
            store.check().await?;
            claim = store.claim(&key).await?;
            // Another process may have received the answer meanwhile.
            if let Some(outcome) = self.stored(&key).await? {
                return Ok(Answered::without_call(self.remember(key, outcome)));
            }
        }
        let call = Arc::clone(&self.in_flight);
        // `paying` keeps a paid answer alive until it is stored.
        let Reply { outcome, mut used, paying } = chat.chat(request, callers).await;
        drop(call);
        used += self.meter.finish(&outcome);
        let is_cached = false;
        match &outcome {
            Err(error) if error.ends_query() => Err(error.clone().into()),
            Err(error) if !is_final(error) => {
                let outcome = Arc::new(outcome);
                // The failure must be known before the request can be sent again.
                statement.iter().for_each(|statement| statement.fail(key, &outcome));
                Ok(Answered { outcome, used, is_cached })
            }
            _ => {
                if let Some(store) = keeping {
                    let may_wait = Arc::strong_count(&self.in_flight) > 1;
                    store.keep(key, outcome.clone(), may_wait).await?;
                }
                drop(paying);
                drop(claim);
                Ok(Answered { outcome: self.remember(key, outcome), used, is_cached })
            }
        }
    }

    async fn stored(&self, key: &RequestKey) -> Result<Option<Outcome>> {
        match &self.store {
            Some(store) => Ok(store.get(key).await?),
            None => Ok(None),
        }
    }

    fn remember(&self, key: RequestKey, outcome: Outcome) -> Arc<Outcome> {
        let bytes = 256 + outcome.as_ref().map_or(0, |answer| answer.text.len());
        let outcome = Arc::new(outcome);
        self.memo.insert(key, Arc::clone(&outcome), bytes);
        outcome
    }
}

/// Returns whether a failure was paid for and would repeat for the same request. Such a failure is kept like an answer.
fn is_final(error: &CallError) -> bool {
    matches!(error.kind, FailureKind::TooLong | FailureKind::Refused | FailureKind::BadResponse) && error.tokens_out > 0
}

/// The failed requests of a running statement. When its last holder drops it, it logs their number and the first
/// failure.
#[derive(Debug, Default)]
pub struct Statement {
    lost: Mutex<Lost>,
}

#[derive(Debug, Default)]
struct Lost {
    outcomes: HashMap<RequestKey, Arc<Outcome>>,
    requests: u64,
    first: Option<String>,
}

impl Statement {
    fn failure(&self, key: &RequestKey) -> Option<Arc<Outcome>> {
        self.lost.lock().outcomes.get(key).cloned()
    }

    fn fail(&self, key: RequestKey, outcome: &Arc<Outcome>) {
        self.lost.lock().outcomes.entry(key).or_insert_with(|| Arc::clone(outcome));
    }

    /// Counts the request of a row that has no answer.
    fn count(&self, error: &CallError) {
        let mut lost = self.lost.lock();
        lost.requests += 1;
        lost.first.get_or_insert_with(|| error.to_string());
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        let lost = self.lost.get_mut();
        if let Some(first) = &lost.first {
            tracing::warn!("{} requests to the language model have no answer; the first: {first}", lost.requests);
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Statements(Mutex<Vec<(Weak<Context>, Weak<Statement>)>>);

/// What the engine shares among the parts of a running statement. Only its address is used.
type Context = dyn Any + Send + Sync;

impl Statements {
    pub(crate) fn of(&self, context: &Arc<Context>) -> Arc<Statement> {
        let mut known = self.0.lock();
        known.retain(|(context, statement)| context.strong_count() > 0 && statement.strong_count() > 0);
        let is_its = |(other, _): &&(Weak<Context>, _)| std::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(context));
        if let Some(statement) = known.iter().find(is_its).and_then(|(_, statement)| statement.upgrade()) {
            return statement;
        }
        let statement = Arc::new(Statement::default());
        known.push((Arc::downgrade(context), Arc::downgrade(&statement)));
        statement
    }
}
