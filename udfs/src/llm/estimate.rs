//! What a run would ask, without asking: rules answer in place of the model, and nothing is paid or kept.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use datafusion::common::{Result, config_datafusion_err};

use super::chat::{Answer, CallError, Chat, Kind, Outcome, Reply};
use super::extractive;
use super::meter::{Budget, Meter, Prices};
use super::request::ChatRequest;
use super::store::{AnswerStore, Key, StoreError};
use crate::cores;
use crate::flights::Callers;
use crate::kernels::steps;
use crate::lm::Tokenizer;
use crate::settings::Settings;

/// Requests whose tokens are counted; those of the others are estimated from them.
const SAMPLED_REQUESTS: u64 = 200;

/// A store that is read only.
#[derive(Debug)]
pub struct ReadOnly(pub Arc<dyn AnswerStore>);

#[async_trait]
impl AnswerStore for ReadOnly {
    async fn get(&self, key: &Key) -> std::result::Result<Option<Vec<u8>>, StoreError> {
        self.0.get(key).await
    }

    async fn check(&self) -> std::result::Result<(), StoreError> {
        Ok(())
    }

    fn configure(&self, settings: &Settings) {
        self.0.configure(settings);
    }

    async fn keep(&self, _: Key, _: Vec<u8>, _: bool) -> std::result::Result<(), StoreError> {
        Ok(())
    }
}

/// Answers by rules and counts as if a language model had answered. Tokens are counted in the tokenizer of the scoring
/// model.
#[derive(Debug)]
pub struct Estimate {
    tokenizer: Arc<Tokenizer>,
    prices: Prices,
    meter: Arc<Meter>,
    sampled: AtomicU64,
    sampled_bytes: AtomicU64,
    sampled_tokens: AtomicU64,
}

impl Estimate {
    /// Counts by `meter` what would be paid under these settings.
    ///
    /// # Errors
    /// If the tokenizer of the scoring model cannot be loaded.
    pub fn new(settings: &Settings, meter: Arc<Meter>) -> Result<Self> {
        let folder = &settings.scorer_model;
        let tokenizer = Tokenizer::load(Path::new(folder))
            .map_err(|error| config_datafusion_err!("asap.scorer.model = '{folder}': {error}"))?;
        Ok(Self {
            tokenizer: Arc::new(tokenizer),
            prices: Prices::of(settings),
            meter,
            sampled: AtomicU64::default(),
            sampled_bytes: AtomicU64::default(),
            sampled_tokens: AtomicU64::default(),
        })
    }

    async fn count(&self, request: &ChatRequest) -> Outcome {
        let reservation = self.meter.reserve(Budget::default(), 0.0).await?;
        let answer = self.answer(request).await;
        let answer = answer.map_err(|error| CallError::new(Kind::Refused, error.to_string()))?;
        reservation.settle(answer.tokens_in, answer.tokens_out, self.prices);
        Ok(answer)
    }

    async fn answer(&self, request: &ChatRequest) -> Result<Answer> {
        let fields = request.fields.clone();
        let prompt: Vec<String> = request.messages.iter().map(|message| message.content.clone()).collect();
        let is_sampled = self.sampled.fetch_add(1, Ordering::Relaxed) < SAMPLED_REQUESTS;
        let tokenizer = Arc::clone(&self.tokenizer);
        let (text, counted) = cores::run(move || {
            let text = stand_in(&fields);
            let mut counted = None;
            if is_sampled {
                let mut tokens_in = 0;
                for content in &prompt {
                    tokens_in += tokenizer.count(content)? as u64;
                }
                counted = Some((tokens_in, tokenizer.count(&text)? as u64));
            }
            Ok((text, counted))
        })
        .await?;
        let is_own = request.fields.is_empty();
        let (bytes_in, bytes_out) = (request.bytes() as u64, text.len() as u64);
        let (tokens_in, tokens_out) = match counted {
            Some((tokens_in, tokens_out)) => {
                self.sampled_bytes.fetch_add(bytes_in + bytes_out, Ordering::Relaxed);
                self.sampled_tokens.fetch_add(tokens_in + tokens_out, Ordering::Relaxed);
                (tokens_in, tokens_out)
            }
            None => (self.estimated(bytes_in), self.estimated(bytes_out)),
        };
        // What a model says to a prompt of the row's own nobody knows, but not how long it may be.
        let tokens_out = if is_own { u64::from(request.max_tokens) } else { tokens_out };
        Ok(Answer { text, tokens_in, tokens_out })
    }

    fn estimated(&self, bytes: u64) -> u64 {
        let tokens = self.sampled_tokens.load(Ordering::Relaxed) as f64;
        let of_bytes = self.sampled_bytes.load(Ordering::Relaxed).max(1) as f64;
        (bytes as f64 * tokens / of_bytes).round() as u64
    }
}

#[async_trait]
impl Chat for Estimate {
    async fn chat(&self, request: &ChatRequest, _: &Arc<Callers>) -> Reply {
        Reply::unpaid(self.count(request).await)
    }
}

/// What rules answer to the fields of a prompt: a direct thought, a coarse pruning, or to a prompt of the row's own as
/// little as can be said.
fn stand_in(fields: &[(&'static str, String)]) -> String {
    let field = |name: &str| fields.iter().find(|(field, _)| *field == name).map(|(_, text)| text.as_str());
    match (field("question"), field("answer"), field("cot"), field("anchor")) {
        (Some(question), Some(answer), _, _) => extractive::write(question, answer).unwrap_or_default(),
        (_, _, Some(cot), Some(thought)) => {
            let original = steps::steps(cot);
            steps::join(extractive::core(&original, thought).into_iter().map(|step| original[step]))
        }
        _ => String::new(),
    }
}
