//! Failures within a statement: equal requests of its rows share one, and the statement reports them at its end.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::chat::{CallError, Outcome};
use crate::request::RequestKey;

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
    pub(super) fn failure(&self, key: &RequestKey) -> Option<Arc<Outcome>> {
        self.lost.lock().outcomes.get(key).cloned()
    }

    pub(super) fn fail(&self, key: RequestKey, outcome: &Arc<Outcome>) {
        self.lost.lock().outcomes.entry(key).or_insert_with(|| Arc::clone(outcome));
    }

    /// Counts the request of a row that has no answer.
    pub(super) fn count(&self, error: &CallError) {
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
