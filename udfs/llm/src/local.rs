//! The calls of a model in this process, with their limits and usage.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::chat::{Chat, Reply, Standing};
use crate::flights::Callers;
use crate::local_model::LocalModel;
use crate::pay::meter::{Budget, Meter, Prices};
use crate::request::ChatRequest;
use crate::send::config::Config;
use crate::send::health::{Health, OwnCalls};

/// Rows in flight. They are enough that the model never idles. They are few enough that the cache still has a row's
/// prompt when another sample of it is requested.
pub(crate) const ROWS_IN_FLIGHT: usize = 4;

#[derive(Debug)]
pub(crate) struct Local {
    model: Arc<dyn LocalModel>,
    prices: Prices,
    budget: Budget,
    meter: Arc<Meter>,
    health: Health,
}

impl Local {
    pub(crate) fn new(
        config: &Config,
        model: Arc<dyn LocalModel>,
        meter: Arc<Meter>,
        own: Arc<Mutex<OwnCalls>>,
    ) -> Self {
        // A model in this process is never down: the row fails, or its thread ends.
        let health = Health::new("the model", Arc::default(), own, 0, 1.0);
        Self { model, prices: config.prices, budget: config.budget, meter, health }
    }
}

#[async_trait]
impl Chat for Local {
    async fn chat(&self, request: &ChatRequest, _: &Arc<Callers>) -> Reply {
        // No token is shorter than a byte.
        let most = self.prices.cost(request.bytes() as u64, u64::from(request.max_tokens));
        let reservation = match self.meter.reserve(self.budget, most, false).await {
            Ok(reservation) => reservation,
            Err(error) => return Reply::unsent(error),
        };
        let denials = self.health.denials();
        let outcome = self.model.answer(request.clone()).await;
        let outcome = self.health.report(outcome, denials, Instant::now());
        let (tokens_in, tokens_out) = match &outcome {
            Ok(answer) => (answer.tokens_in, answer.tokens_out),
            Err(error) => (error.tokens_in, error.tokens_out),
        };
        Reply { outcome, used: reservation.settle(tokens_in, tokens_out, self.prices), paying: None }
    }

    fn standing(&self, calls: u64) -> Standing {
        self.health.standing(calls, Instant::now())
    }

    fn is_over(&self) -> bool {
        self.model.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Answer, Outcome};
    use crate::usage::Usage;

    #[derive(Debug)]
    struct Yes;

    #[async_trait]
    impl LocalModel for Yes {
        fn name(&self) -> &str {
            "yes"
        }

        fn is_over(&self) -> bool {
            false
        }

        fn conversations_in_flight(&self) -> usize {
            1
        }

        async fn answer(&self, _: ChatRequest) -> Outcome {
            Ok(Answer { text: "yes".to_string(), tokens_in: 3, tokens_out: 1, ..Answer::default() })
        }
    }

    #[tokio::test]
    async fn a_reply_tells_what_the_session_counted_for_it() {
        let mut config = Config::openai();
        config.budget.max_calls = Some(2);
        let request = ChatRequest { max_tokens: 1, ..ChatRequest::default() };
        let meter = Arc::new(Meter::default());
        let local = Local::new(&config, Arc::new(Yes), Arc::clone(&meter), Arc::default());
        let one = Usage { calls: 1, tokens_in: 3, tokens_out: 1, ..Usage::default() };
        for (used, in_all) in [(one, 1), (one, 2), (Usage::default(), 2)] {
            assert_eq!(local.chat(&request, &Arc::default()).await.used, used);
            assert_eq!((meter.usage().calls, meter.usage().tokens_in), (in_all, 3 * in_all));
        }
    }
}
