//! Estimates the calls of a run without making them: rules answer instead of the model, and nothing is paid or kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use asap_kernels::extractive;
use asap_kernels::front_end::Setting;
use asap_kernels::steps::{Separator, select};
use asap_lm::Tokenizer;
use async_trait::async_trait;
use datafusion::common::{Result, config_datafusion_err};

use crate::cores;
use crate::llm::failed;
use crate::settings::Settings;
use asap_llm::Llm;
use asap_llm::chat::{Answer, CallError, Chat, FailureKind, Reply};
use asap_llm::flights::Callers;
use asap_llm::meter::{Budget, Meter, Prices};
use asap_llm::request::ChatRequest;

/// Number of requests whose tokens are counted. The tokens of later requests are estimated from these.
const SAMPLED_REQUESTS: u64 = 200;

/// Counts requests that are not in the cache as if the language model had answered. Uses the tokenizer of the scoring
/// model.
#[derive(Debug)]
pub(super) struct Estimate {
    tokenizer: Tokenizer,
    prices: Prices,
    meter: Arc<Meter>,
    sampled: AtomicU64,
    sampled_bytes: AtomicU64,
    sampled_tokens: AtomicU64,
}

/// A request whose answer is written by rules.
#[derive(Debug)]
pub(super) enum Stub {
    Thought {
        question: String,
        answer: String,
    },
    Pruning {
        cot: String,
        thought: String,
        separator: Separator,
    },
    /// The answer to a row's own prompt is unknown, so the estimate uses its maximum length.
    Longest,
}

#[derive(Debug)]
pub(super) struct Estimated {
    pub estimate: Arc<Estimate>,
    pub stub: Arc<Stub>,
}

impl Estimate {
    pub(super) fn new(settings: &Settings, llm: &Llm) -> Result<Self> {
        let named = &settings.scorer_model;
        let tokenizer = settings
            .scorer_tokenizer()
            .and_then(|folder| Tokenizer::load(&folder))
            .map_err(|error| config_datafusion_err!("{} = '{named}': {error}", Setting("asap.scorer.model")))?;
        Ok(Self {
            tokenizer,
            prices: settings.language_model().prices,
            meter: llm.meter(),
            sampled: AtomicU64::default(),
            sampled_bytes: AtomicU64::default(),
            sampled_tokens: AtomicU64::default(),
        })
    }

    fn of_bytes(&self, bytes: [usize; 2]) -> (u64, u64) {
        let tokens = self.sampled_tokens.load(Ordering::Relaxed) as f64;
        let of_bytes = self.sampled_bytes.load(Ordering::Relaxed).max(1) as f64;
        bytes.map(|bytes| (bytes as f64 * tokens / of_bytes).round() as u64).into()
    }

    fn count(&self, prompt: &str, answer: &str) -> Result<(u64, u64)> {
        let count = |text: &str| self.tokenizer.count(text).map(|tokens| tokens as u64).map_err(crate::models::failed);
        let (tokens_in, tokens_out) = (count(prompt)?, count(answer)?);
        self.sampled_bytes.fetch_add((prompt.len() + answer.len()) as u64, Ordering::Relaxed);
        self.sampled_tokens.fetch_add(tokens_in + tokens_out, Ordering::Relaxed);
        Ok((tokens_in, tokens_out))
    }
}

#[async_trait]
impl Chat for Estimated {
    async fn chat(&self, request: &ChatRequest, _: &Arc<Callers>) -> Reply {
        let Estimate { meter, prices, .. } = &*self.estimate;
        let reservation = match meter.reserve(Budget::default(), 0.0, false).await {
            Ok(reservation) => reservation,
            Err(error) => return Reply::unsent(error),
        };
        let outcome = self.answer(request).await;
        let outcome = outcome.map_err(|error| CallError::new(FailureKind::Refused, error.to_string()));
        let used = match &outcome {
            Ok(answer) => reservation.settle(answer.tokens_in, answer.tokens_out, *prices),
            Err(_) => reservation.forfeit(),
        };
        Reply { outcome, used, paying: None }
    }
}

impl Estimated {
    async fn answer(&self, request: &ChatRequest) -> Result<Answer> {
        let (estimate, stub) = (Arc::clone(&self.estimate), Arc::clone(&self.stub));
        let is_counted = self.estimate.sampled.fetch_add(1, Ordering::Relaxed) < SAMPLED_REQUESTS;
        let prompt = is_counted.then(|| request.messages.iter().map(|said| said.content.as_str()).collect::<String>());
        let (text, counted) = cores::run(move || {
            let text = stub.text();
            let counted = prompt.map(|prompt| estimate.count(&prompt, &text)).transpose();
            counted.map(|counted| (text, counted))
        })
        .await
        .map_err(failed)??;
        let (tokens_in, tokens_out) = counted.unwrap_or_else(|| self.estimate.of_bytes([request.bytes(), text.len()]));
        let is_longest = matches!(*self.stub, Stub::Longest);
        let tokens_out = if is_longest { u64::from(request.max_tokens) } else { tokens_out };
        Ok(Answer { text, tokens_in, tokens_out, ..Answer::default() })
    }
}

impl Stub {
    fn text(&self) -> String {
        match self {
            Self::Thought { question, answer } => extractive::write(question, answer).unwrap_or_default(),
            Self::Pruning { cot, thought, separator } => {
                let original = separator.steps(cot);
                select(&original, extractive::core(&original, thought))
            }
            Self::Longest => String::new(),
        }
    }
}
