//! Counts the usage of a session's calls and enforces its limits.

use std::sync::{Arc, OnceLock};

use asap_kernels::front_end::Setting;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::chat::{CallError, Defaults, FailureKind, Outcome};
use crate::pay::store::{Purse, StoreError, Taken};
use crate::usage::Usage;

/// The prices of tokens, in any currency.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Prices {
    pub per_token_in: f64,
    pub per_token_out: f64,
}

impl Prices {
    pub(crate) fn cost(&self, tokens_in: u64, tokens_out: u64) -> f64 {
        tokens_in as f64 * self.per_token_in + tokens_out as f64 * self.per_token_out
    }
}

/// The limits on what a session spends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    /// Requests, retries included.
    pub max_calls: Option<u64>,
    /// Money, in the currency of the prices.
    pub max_cost: Option<f64>,
}

/// Counts what a session spends, before it is spent. It reserves the most that a call can cost, and settles the
/// reservation when the cost is known. It returns what it counts for a row to that row, so that rows and session agree.
#[derive(Debug, Default)]
pub struct Meter {
    state: Mutex<MeterState>,
    settled: Notify,
    purse: OnceLock<Arc<dyn Purse>>,
    taking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct MeterState {
    usage: Usage,
    /// An upper bound of the cost. The cost of a call without an answer is unknown, so its whole reservation counts.
    spent: f64,
    reserved: f64,
    taken: f64,
    total: Option<f64>,
    in_flight: u64,
    refusal: Option<String>,
    defaults: Defaults,
}

impl Meter {
    pub(crate) fn usage(&self) -> Usage {
        self.state.lock().usage
    }

    pub(crate) fn count(&self, used: Usage) -> Usage {
        self.state.lock().usage += used;
        used
    }

    /// Counts the outcome of a row's request.
    pub(crate) fn finish(&self, outcome: &Outcome) -> Usage {
        let Err(error) = outcome else { return Usage::default() };
        if error.kind == FailureKind::Budget {
            let mut state = self.state.lock();
            state.refusal.get_or_insert_with(|| error.message.clone());
        }
        self.count(Usage { failed: 1, ..Usage::default() })
    }

    /// Adds the parameters that the endpoint chose for an answer of the session.
    pub(crate) fn add_defaults(&self, Defaults([temperature, top_p]): Defaults) {
        let Defaults(all) = &mut self.state.lock().defaults;
        *all = [all[0] || temperature, all[1] || top_p];
    }

    /// Returns the parameters that the endpoint chose for answers of the session.
    pub(crate) fn defaults(&self) -> Defaults {
        self.state.lock().defaults
    }

    pub(crate) fn refusal(&self) -> Option<String> {
        self.state.lock().refusal.clone()
    }

    /// Counts a request that is about to be sent, first or as a retry, and that costs at most `most`. If calls in
    /// flight may turn out cheaper than their reservations, it waits for them instead of rejecting.
    ///
    /// # Errors
    /// If the budget does not allow the request, or the purse cannot be read.
    pub async fn reserve(
        self: &Arc<Self>,
        budget: Budget,
        most: f64,
        is_retry: bool,
    ) -> Result<Reservation, CallError> {
        let used = Usage { calls: 1, retries: u64::from(is_retry), ..Usage::default() };
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            // From here on no settlement is missed, even one before the await.
            settled.as_mut().enable();
            match self.try_reserve(budget, most, used)? {
                Admission::Reserved => return Ok(Reservation { meter: Arc::clone(self), most, used }),
                Admission::Wait => settled.await,
                Admission::Short(max_cost) => self.take(most, max_cost).await?,
            }
        }
    }

    fn try_reserve(&self, budget: Budget, most: f64, used: Usage) -> Result<Admission, CallError> {
        let mut state = self.state.lock();
        let sent = state.usage.calls;
        if let Some(max_calls) = budget.max_calls.filter(|max_calls| sent >= *max_calls) {
            let message =
                format!("{} allows {max_calls} requests, and {sent} were sent", Setting("asap.anchor.max_calls"));
            return Err(CallError::new(FailureKind::Budget, message));
        }
        if let Some(max_cost) = budget.max_cost {
            let needed = state.spent + state.reserved + most;
            let is_shared = self.purse.get().is_some();
            if is_shared && needed > state.taken && state.total.is_none() {
                return Ok(Admission::Short(max_cost));
            }
            if needed > if is_shared { state.taken } else { max_cost } {
                if state.in_flight > 0 {
                    return Ok(Admission::Wait);
                }
                let spent = match state.total {
                    Some(total) => {
                        let above = (state.spent - state.taken).max(0.0);
                        format!("{:.6} is spent on this output today", total + above)
                    }
                    None => format!("{:.6} is spent", state.spent),
                };
                let message = format!(
                    "{spent}, and this call could cost {most:.6}: together more than {} = {max_cost}",
                    Setting("asap.anchor.max_cost")
                );
                return Err(CallError::new(FailureKind::Budget, message));
            }
        }
        state.usage += used;
        state.reserved += most;
        state.in_flight += 1;
        Ok(Admission::Reserved)
    }

    pub(crate) fn spend_from(&self, purse: Arc<dyn Purse>) {
        // A session has one output, and so one purse.
        drop(self.purse.set(purse));
    }

    /// Takes the missing amount for a call from the purse, unless another call already did.
    async fn take(&self, most: f64, max_cost: f64) -> Result<(), CallError> {
        let Some(purse) = self.purse.get() else { return Ok(()) };
        let _taking = self.taking.lock().await;
        let short = {
            let state = self.state.lock();
            if state.total.is_some() { 0.0 } else { state.spent + state.reserved + most - state.taken }
        };
        if short <= 0.0 {
            return Ok(());
        }
        let Taken { amount, total } = purse
            .take(short, max_cost)
            .await
            // No setting helps, so it is not a failure of the budget.
            .map_err(|error| CallError::new(FailureKind::EndpointDown, error.to_string()))?;
        let mut state = self.state.lock();
        state.taken += amount;
        state.total = (amount == 0.0).then_some(total);
        Ok(())
    }

    /// Settles the purse: returns what was not spent, or takes what answers cost above their reservations.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let Some(purse) = self.purse.get() else { return Ok(()) };
        let left = {
            let mut state = self.state.lock();
            let left = state.taken - state.spent - state.reserved;
            state.taken -= left;
            left
        };
        if left == 0.0 { Ok(()) } else { purse.settle(left).await }
    }
}

/// What a session's limits say of a request.
enum Admission {
    Reserved,
    /// Calls in flight may turn out cheaper than their reservations.
    Wait,
    /// The purse has to give more, up to this cost.
    Short(f64),
}

/// The right to send one request. If it is dropped without being settled, its whole amount counts as spent.
#[derive(Debug)]
pub struct Reservation {
    meter: Arc<Meter>,
    most: f64,
    used: Usage,
}

impl Reservation {
    pub(crate) fn give_back(mut self) {
        let mut state = self.meter.state.lock();
        state.usage.calls -= self.used.calls;
        state.usage.retries -= self.used.retries;
        state.reserved -= self.most;
        drop(state);
        self.most = 0.0;
    }

    /// Replaces the reserved amount by the actual cost of the call. Returns its whole usage.
    pub fn settle(mut self, tokens_in: u64, tokens_out: u64, prices: Prices) -> Usage {
        let took = Usage { tokens_in, tokens_out, cost: prices.cost(tokens_in, tokens_out), ..Usage::default() };
        let mut state = self.meter.state.lock();
        state.usage += took;
        state.reserved += took.cost - self.most;
        drop(state);
        self.most = took.cost;
        self.used += took;
        self.used
    }

    /// Keeps the reserved amount, since the cost of the call is unknown. Returns its whole usage.
    pub fn forfeit(self) -> Usage {
        self.used
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.meter.state.lock();
        state.spent += self.most;
        state.in_flight -= 1;
        // The reset keeps rounding errors from adding up over millions of calls.
        state.reserved = if state.in_flight == 0 { 0.0 } else { state.reserved - self.most };
        drop(state);
        self.meter.settled.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices { per_token_in: 1.0, per_token_out: 10.0 };

    #[tokio::test]
    async fn a_call_that_could_exceed_the_cost_waits_for_those_in_flight() {
        let meter = Arc::new(Meter::default());
        let hundred = Budget { max_calls: None, max_cost: Some(100.0) };
        let first = meter.reserve(hundred, 60.0, false).await.unwrap();
        let mut second = Box::pin(meter.reserve(hundred, 60.0, false));
        assert!(futures::poll!(&mut second).is_pending());
        first.settle(10, 2, PRICES);
        let second = second.await.unwrap();
        let mut third = Box::pin(meter.reserve(hundred, 60.0, false));
        assert!(futures::poll!(&mut third).is_pending());
        // Its cost is unknown, so it may be the whole amount.
        drop(second);
        let error = third.await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Budget);
        assert!(error.message.starts_with("90.000000 is spent, and this call could cost 60.000000"), "{error}");
        meter.reserve(hundred, 10.0, false).await.unwrap().settle(0, 0, PRICES);
        assert_eq!((meter.usage().calls, meter.usage().cost), (3, 30.0));
    }

    #[tokio::test]
    async fn a_request_beyond_the_allowed_ones_says_how_many_were_sent() {
        let (meter, two) = (Arc::new(Meter::default()), Budget { max_calls: Some(2), max_cost: None });
        meter.reserve(two, 0.0, false).await.unwrap().forfeit();
        meter.reserve(two, 0.0, true).await.unwrap().settle(10, 2, PRICES);
        let error = meter.reserve(two, 0.0, false).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Budget);
        assert_eq!(error.message, "asap.anchor.max_calls allows 2 requests, and 2 were sent");
        assert_eq!(meter.usage().calls, 2);
    }
}
