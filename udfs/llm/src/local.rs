//! A model in a local folder, on its own thread: it answers the waiting requests in one batch.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use asap_kernels::front_end::Setting;
use asap_lm::generate::{Finish, Generated, Generator, Prompt, TEXTS};
use asap_lm::memo::Memory;
use asap_lm::ops::on_cores;
use asap_lm::sampling::Sampling;
use asap_lm::{LmError, Message, fingerprint};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::chat::{Answer, CallError, Chat, ChatResponse, FailureKind, Outcome, Reply, Standing};
use crate::config::Config;
use crate::flights::Callers;
use crate::health::{Health, OwnCalls};
use crate::meter::{Budget, Meter, Prices};
use crate::request::ChatRequest;
use crate::{LlmError, Result};

/// Capacity of the queue of requests to the model; further requests wait to enter it.
const WAITING: usize = 16;

/// Rows in flight. They are enough that the model never idles. They are few enough that the cache still has a row's
/// prompt when another sample of it is requested.
pub(crate) const ROWS_IN_FLIGHT: usize = 4;

/// Conversations in flight that fill the batch, and the queue with those that follow.
pub(crate) const CONVERSATIONS_IN_FLIGHT: usize = TEXTS + WAITING;

/// A model's thread. Dropping this ends the thread and waits for it. That is quick, because no caller wants its answer.
pub struct LocalModel {
    requests: Option<mpsc::Sender<PendingRequest>>,
    thread: Option<JoinHandle<()>>,
    fingerprint: String,
}

struct PendingRequest {
    request: ChatRequest,
    seed: u64,
    answer: oneshot::Sender<Outcome>,
}

impl fmt::Debug for LocalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalModel").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl LocalModel {
    pub(crate) fn load(folder: &str, memory: &Arc<Memory>) -> Result<Self> {
        let wrong =
            |error: LmError| LlmError::Setting(format!("{} = '{folder}': {error}", Setting("asap.anchor.model")));
        let generator = Generator::load(Path::new(folder), memory).map_err(wrong)?;
        let fingerprint = fingerprint(Path::new(folder)).map_err(wrong)?;
        Self::spawn(fingerprint, generator, serve)
            .map_err(|error| wrong(LmError::Thread(format!("cannot start it: {error}"))))
    }

    fn spawn<G: Send + 'static>(fingerprint: String, generator: G, serve: Serve<G>) -> std::io::Result<Self> {
        let (requests, waiting) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new().name("asap-anchor".to_string());
        let thread = thread.spawn(move || serve(generator, waiting))?;
        Ok(Self { requests: Some(requests), thread: Some(thread), fingerprint })
    }

    #[cfg(test)]
    pub(super) fn fragile() -> std::io::Result<Self> {
        Self::spawn(String::new(), (), |(), mut waiting| {
            waiting.blocking_recv();
            panic!("no such luck")
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.requests.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// Returns the model's name in requests: a copy in another folder is the same model.
    pub(crate) fn name(&self) -> &str {
        &self.fingerprint
    }

    async fn answer(&self, request: ChatRequest) -> Outcome {
        // This is not a row's fault, so the query ends. The next query loads the model again.
        let stopped = || {
            CallError::new(
                FailureKind::EndpointDown,
                "the model's thread was ended by a panic, which is a fault of asap: report it with the panic's message",
            )
        };
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or_else(stopped)?;
        let seed = seed(&request)?;
        requests.send(PendingRequest { request, seed, answer }).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

impl Drop for LocalModel {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // Callers already received an error for a panic.
            drop(thread.join());
        }
    }
}

type Serve<G> = fn(G, mpsc::Receiver<PendingRequest>);

fn serve(mut generator: Generator, mut waiting: mpsc::Receiver<PendingRequest>) {
    let next = |generator: &Generator, is_idle: bool| {
        let asking = if is_idle { waiting.blocking_recv() } else { waiting.try_recv().ok() }?;
        let (prompt, sampling) = (prompt(generator, &asking.request), sampling(&asking));
        Some(((asking, Instant::now()), prompt, sampling))
    };
    // A caller that stopped waiting needs no answer.
    let is_wanted = |(asking, _): &(PendingRequest, Instant)| !asking.answer.is_closed();
    let each = |(asking, begun): (PendingRequest, Instant), generated: asap_lm::Result<Generated>| {
        drop(asking.answer.send(outcome(&asking.request, generated, begun.elapsed().as_secs_f64())));
    };
    on_cores(|| generator.serve(next, is_wanted, each));
}

fn prompt(generator: &Generator, request: &ChatRequest) -> asap_lm::Result<Prompt> {
    let messages: Vec<Message> =
        request.messages.iter().map(|message| Message { role: message.role, content: &message.content }).collect();
    generator.prompt(&messages, request.is_whole)
}

fn sampling(PendingRequest { request, seed, .. }: &PendingRequest) -> Sampling {
    let ChatRequest { temperature, top_p, max_tokens, .. } = *request;
    Sampling { temperature, top_p, seed: *seed, max_tokens: max_tokens as usize, stop: request.stop.clone() }
}

fn outcome(request: &ChatRequest, generated: asap_lm::Result<Generated>, seconds: f64) -> Outcome {
    let generated = generated.map_err(|error| match error {
        LmError::TooLong { .. } => CallError::new(FailureKind::TooLong, error.to_string()),
        LmError::Prompt(_) => CallError::new(FailureKind::Refused, error.to_string()),
        error => CallError::new(FailureKind::Unavailable, error.to_string()),
    })?;
    let Generated { text, tokens_in, tokens_out, finish, opens_thought, .. } = generated;
    let (tokens_in, tokens_out) = (tokens_in as u64, tokens_out as u64);
    let is_cut_off = finish == Finish::Length;
    if request.is_whole {
        let found = ChatResponse {
            reasoning: None,
            content: text,
            opens_thought,
            finish_reason: Some(if is_cut_off { "length" } else { "stop" }.to_string()),
            prompt_tokens: Some(tokens_in),
            completion_tokens: Some(tokens_out),
            model: Some(request.model.clone()),
            seconds,
            cached: false,
        };
        return found.answer(tokens_in, tokens_out);
    }
    if is_cut_off {
        let message = format!(
            "the answer was cut off after {tokens_out} tokens (asap.anchor.max_tokens is {}, the prompt has {tokens_in})",
            request.max_tokens
        );
        return Err(CallError { tokens_in, tokens_out, ..CallError::new(FailureKind::TooLong, message) });
    }
    Ok(Answer { text, tokens_in, tokens_out, ..Answer::default() })
}

/// Returns a seed that depends on the whole request, so that each sample has its own.
fn seed(request: &ChatRequest) -> std::result::Result<u64, CallError> {
    let key = request.key().map_err(|error| CallError::new(FailureKind::Refused, error.to_string()))?;
    Ok(key.iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte)))
}

#[derive(Debug)]
pub struct Local {
    model: Arc<LocalModel>,
    prices: Prices,
    budget: Budget,
    meter: Arc<Meter>,
    health: Health,
}

impl Local {
    pub(crate) fn new(config: &Config, model: Arc<LocalModel>, meter: Arc<Meter>, own: Arc<Mutex<OwnCalls>>) -> Self {
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
    use crate::usage::Usage;
    use std::sync::mpsc::{Sender, channel};

    /// Never answers, and sends a message when it is dropped.
    struct Endless(Sender<()>);

    impl Drop for Endless {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }

    fn request() -> ChatRequest {
        ChatRequest { max_tokens: 1, ..ChatRequest::default() }
    }

    #[tokio::test]
    async fn a_model_that_is_dropped_has_ended_then() {
        let (sender, dropped) = channel();
        let model = LocalModel::spawn(String::new(), Endless(sender), |model, mut waiting| {
            let asking = waiting.blocking_recv().unwrap();
            model.0.send(()).unwrap();
            while !asking.answer.is_closed() {
                std::thread::yield_now();
            }
        });
        let model = model.unwrap();
        let mut asking = Box::pin(model.answer(request()));
        assert!(futures::poll!(&mut asking).is_pending());
        dropped.recv().unwrap();
        drop(asking);
        drop(model);
        assert!(dropped.try_recv().is_ok(), "the model is dropped with its thread");
    }

    #[tokio::test]
    async fn a_reply_tells_what_the_session_counted_for_it() {
        let mut config = Config::openai();
        config.budget.max_calls = Some(2);
        let model = LocalModel::spawn(String::new(), (), |(), mut waiting| {
            while let Some(asking) = waiting.blocking_recv() {
                let answer = Answer { text: "yes".to_string(), tokens_in: 3, tokens_out: 1, ..Answer::default() };
                asking.answer.send(Ok(answer)).unwrap();
            }
        });
        let meter = Arc::new(Meter::default());
        let local = Local::new(&config, Arc::new(model.unwrap()), Arc::clone(&meter), Arc::default());
        let one = Usage { calls: 1, tokens_in: 3, tokens_out: 1, ..Usage::default() };
        for (used, in_all) in [(one, 1), (one, 2), (Usage::default(), 2)] {
            assert_eq!(local.chat(&request(), &Arc::default()).await.used, used);
            assert_eq!((meter.usage().calls, meter.usage().tokens_in), (in_all, 3 * in_all));
        }
    }
}
