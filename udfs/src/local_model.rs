//! The provider `local`: a model of this machine or the Hub, on its own thread. It answers the waiting requests in one batch.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use asap_kernels::front_end::Setting;
use asap_kernels::memo::Memory;
use asap_llm::chat::{Answer, CallError, ChatResponse, FailureKind, Outcome};
use asap_llm::local_model::{LocalModel, OpenLocal};
use asap_llm::request::ChatRequest;
use asap_llm::{LlmError, Result};
use asap_lm::generate::{Finish, Generated, Generator, Prompt, TEXTS};
use asap_lm::ops::on_cores;
use asap_lm::sampling::Sampling;
use asap_lm::{LmError, Message, fingerprint, locate};
use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

/// Capacity of the queue of requests to the model; further requests wait to enter it.
const WAITING: usize = 16;

/// Opens a model by its folder, or its name on the Hub.
pub(crate) const OPEN: OpenLocal = OpenLocal(|named, memory| Ok(Arc::new(ModelThread::load(named, memory)?)));

/// A model's thread. Dropping this ends the thread and waits for it. That is quick, because no caller wants its answer.
pub(crate) struct ModelThread {
    requests: Option<mpsc::Sender<PendingRequest>>,
    thread: Option<JoinHandle<()>>,
    fingerprint: String,
}

struct PendingRequest {
    request: ChatRequest,
    seed: u64,
    answer: oneshot::Sender<Outcome>,
}

impl fmt::Debug for ModelThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelThread").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl ModelThread {
    fn load(named: &str, memory: &Arc<Memory>) -> Result<Self> {
        let wrong = |error: LmError| match error {
            LmError::Unavailable(why) => LlmError::Unreachable(why),
            LmError::Write { .. } => LlmError::Local(Arc::new(error)),
            error => LlmError::Setting(format!("{} = '{named}': {error}", Setting("asap.anchor.model"))),
        };
        let folder = locate(named).map_err(wrong)?;
        let generator = Generator::load(&folder, memory).map_err(wrong)?;
        let fingerprint = fingerprint(&folder).map_err(wrong)?;
        Self::spawn(fingerprint, generator, serve)
            .map_err(|error| wrong(LmError::Thread(format!("cannot start it: {error}"))))
    }

    fn spawn<G: Send + 'static>(fingerprint: String, generator: G, serve: Serve<G>) -> std::io::Result<Self> {
        let (requests, waiting) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new().name("asap-anchor".to_string());
        let thread = thread.spawn(move || serve(generator, waiting))?;
        Ok(Self { requests: Some(requests), thread: Some(thread), fingerprint })
    }
}

#[async_trait]
impl LocalModel for ModelThread {
    fn name(&self) -> &str {
        &self.fingerprint
    }

    fn is_over(&self) -> bool {
        self.requests.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    fn conversations_in_flight(&self) -> usize {
        TEXTS + WAITING
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

impl Drop for ModelThread {
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

#[cfg(test)]
mod tests {
    use super::*;
    use asap_llm::Llm;
    use asap_llm::completions::{Completions, Options};
    use asap_llm::request::Message;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use datafusion::common::config::ExtensionOptions;

    use crate::Settings;

    #[tokio::test]
    async fn after_a_panic_of_a_models_thread_the_next_query_loads_it_anew() {
        static FRAGILE: Mutex<Option<Arc<dyn LocalModel>>> = Mutex::new(None);
        let fragile = ModelThread::spawn(String::new(), (), |(), mut waiting| {
            waiting.blocking_recv();
            panic!("no such luck")
        });
        let fragile: Arc<dyn LocalModel> = Arc::new(fragile.unwrap());
        *FRAGILE.lock().unwrap() = Some(Arc::clone(&fragile));
        let mut settings = Settings::default();
        settings.set("anchor.provider", "local").unwrap();
        settings.set("anchor.model", concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/goldens/qwen2")).unwrap();
        let mut config = settings.language_model();
        config.open_local = OpenLocal(|folder, memory| match FRAGILE.lock().unwrap().take() {
            Some(fragile) => Ok(fragile),
            None => OPEN.0(folder, memory),
        });
        let llm = Llm::default();
        let options = Options { max_tokens: 2, temperature: 0.0, top_p: 1.0, stop: Vec::new(), seed: None };
        let respond = async || {
            let messages = vec![Message { role: "user", content: "a".to_string() }];
            Completions::new(&config, &llm).unwrap().respond(messages, 0, &options).await
        };
        let error = respond().await.unwrap_err();
        assert!(error.to_string().contains("by a panic"), "{error}");
        // The error arrives before the thread has ended.
        while !fragile.is_over() {
            tokio::task::yield_now().await;
        }
        let response = respond().await.unwrap().unwrap();
        assert!(response.completion_tokens > Some(0), "{response:?}");
    }

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
        let model = ModelThread::spawn(String::new(), Endless(sender), |model, mut waiting| {
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
}
