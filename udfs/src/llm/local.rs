//! A model in a local folder, on its own thread: one request after the other.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use asap_lm::generate::{Finish, Generated, Generator};
use asap_lm::memo::Memory;
use asap_lm::sampling::Sampling;
use asap_lm::{LmError, Message, fingerprint};
use async_trait::async_trait;
use datafusion::common::{Result, config_datafusion_err};
use tokio::sync::{mpsc, oneshot};

use super::chat::{Answer, CallError, Chat, FailureKind, Outcome, Reply};
use super::meter::{Budget, Meter, Prices};
use super::request::ChatRequest;
use crate::flights::Callers;
use crate::settings::Settings;

/// Capacity of the queue of requests to the model; further requests wait to enter it.
const WAITING: usize = 16;

/// Rows in flight. They are enough that the model never idles. They are few enough that the cache still has a row's
/// prompt when another sample of it is requested.
pub(crate) const ROWS_IN_FLIGHT: usize = 4;

/// A model's thread. Dropping this ends the thread and waits for it. That is quick, because no caller wants its answer.
pub struct LocalModel {
    requests: Option<mpsc::Sender<Asking>>,
    thread: Option<JoinHandle<()>>,
    fingerprint: String,
}

struct Asking {
    request: ChatRequest,
    answer: oneshot::Sender<Outcome>,
}

impl fmt::Debug for LocalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalModel").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl LocalModel {
    pub(crate) fn load(folder: &str, memory: &Arc<Memory>) -> Result<Self> {
        let wrong = |error: LmError| config_datafusion_err!("asap.anchor.model = '{folder}': {error}");
        let generator = Generator::load(Path::new(folder), memory).map_err(wrong)?;
        let fingerprint = fingerprint(Path::new(folder)).map_err(wrong)?;
        Self::spawn(fingerprint, generator, generate)
            .map_err(|error| wrong(LmError::Thread(format!("cannot start it: {error}"))))
    }

    fn spawn<G: Send + 'static>(fingerprint: String, generator: G, answer: Generate<G>) -> std::io::Result<Self> {
        let (requests, waiting) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new().name("asap-anchor".to_string());
        let thread = thread.spawn(move || serve(generator, answer, waiting))?;
        Ok(Self { requests: Some(requests), thread: Some(thread), fingerprint })
    }

    #[cfg(test)]
    pub(super) fn fragile() -> std::io::Result<Self> {
        Self::spawn(String::new(), (), |(), _, _| panic!("no such luck"))
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
                "the model's thread was ended by a panic; run the same command again",
            )
        };
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or_else(stopped)?;
        requests.send(Asking { request, answer }).await.map_err(|_| stopped())?;
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

type Generate<G> =
    fn(&mut G, &ChatRequest, &(dyn Fn() -> bool + Sync)) -> std::result::Result<Option<Answer>, CallError>;

fn serve<G>(mut generator: G, generate: Generate<G>, mut waiting: mpsc::Receiver<Asking>) {
    while let Some(Asking { request, answer }) = waiting.blocking_recv() {
        // A caller that stopped waiting needs no answer.
        let said = generate(&mut generator, &request, &|| !answer.is_closed());
        if let Some(outcome) = said.transpose() {
            drop(answer.send(outcome));
        }
    }
}

fn generate(
    generator: &mut Generator,
    request: &ChatRequest,
    is_wanted: &(dyn Fn() -> bool + Sync),
) -> std::result::Result<Option<Answer>, CallError> {
    let messages: Vec<Message> =
        request.messages.iter().map(|message| Message { role: message.role, content: &message.content }).collect();
    let sampling = Sampling {
        temperature: request.temperature,
        top_p: request.top_p,
        seed: seed(request)?,
        max_tokens: request.max_tokens as usize,
    };
    let generated = generator.answer(&messages, sampling, is_wanted).map_err(|error| match error {
        LmError::TooLong { .. } => CallError::new(FailureKind::TooLong, error.to_string()),
        error => CallError::new(FailureKind::Unavailable, error.to_string()),
    })?;
    let Some(generated) = generated else { return Ok(None) };
    let Generated { text, tokens_in, tokens_out, finish } = generated;
    let (tokens_in, tokens_out) = (tokens_in as u64, tokens_out as u64);
    match finish {
        Finish::Stop => Ok(Some(Answer { text, tokens_in, tokens_out })),
        Finish::Length => {
            let message = format!(
                "the answer was cut off after {tokens_out} tokens (asap.anchor.max_tokens is {}, the prompt has {tokens_in})",
                request.max_tokens
            );
            Err(CallError { tokens_in, tokens_out, ..CallError::new(FailureKind::TooLong, message) })
        }
    }
}

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
}

impl Local {
    pub fn new(settings: &Settings, model: Arc<LocalModel>, meter: Arc<Meter>) -> Self {
        Self { model, prices: Prices::of(settings), budget: Budget::of(settings), meter }
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
        let outcome = self.model.answer(request.clone()).await;
        let (tokens_in, tokens_out) = match &outcome {
            Ok(answer) => (answer.tokens_in, answer.tokens_out),
            Err(error) => (error.tokens_in, error.tokens_out),
        };
        Reply { outcome, used: reservation.settle(tokens_in, tokens_out, self.prices), paying: None }
    }

    fn is_over(&self) -> bool {
        self.model.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::usage::Usage;
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
        let model = LocalModel::spawn(String::new(), Endless(sender), |model, _, is_wanted| {
            model.0.send(()).unwrap();
            while is_wanted() {
                std::thread::yield_now();
            }
            Ok(None)
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
        let settings = Settings { anchor_max_calls: Some(2), ..Settings::default() };
        let model = LocalModel::spawn(String::new(), (), |(), _, _| {
            Ok(Some(Answer { text: "yes".to_string(), tokens_in: 3, tokens_out: 1 }))
        });
        let meter = Arc::new(Meter::default());
        let local = Local::new(&settings, Arc::new(model.unwrap()), Arc::clone(&meter));
        let one = Usage { calls: 1, tokens_in: 3, tokens_out: 1, ..Usage::default() };
        for (used, in_all) in [(one, 1), (one, 2), (Usage::default(), 2)] {
            assert_eq!(local.chat(&request(), &Arc::default()).await.used, used);
            assert_eq!((meter.usage().calls, meter.usage().tokens_in), (in_all, 3 * in_all));
        }
    }

    #[tokio::test]
    async fn a_panic_ends_the_query_and_is_no_rows_failure() {
        let request = request();
        let model = LocalModel::fragile().unwrap();
        for _ in 0..2 {
            let error = model.answer(request.clone()).await.unwrap_err();
            assert_eq!(error.kind, FailureKind::EndpointDown);
            assert!(error.message.contains("by a panic"), "{error}");
        }
        assert!(model.is_over());
    }
}
