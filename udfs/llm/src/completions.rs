//! Whole responses to conversations, to evaluate a model: the thought, the answer, how it ended, tokens and time.
//!
//! A conversation is a request like those of anchoring: it has the same limits, retries, health and cache, and its
//! response is stored before it is used. Stores hold texts, so the text that is stored is the [`ChatResponse`] in JSON.
//! [`ChatRequest::is_whole`] is part of the request's key, so no request of anchoring receives such a text. A response
//! that was cut off is an answer here, because it was paid and its evaluation needs no longer one.

use std::sync::Arc;

use crate::chat::{CallError, Chat, ChatResponse, Served};
use crate::pay::answers::Answers;
use crate::request::{ChatRequest, Message};
use crate::send::config::Config;
use crate::{Llm, LlmError, Result};

/// A language model that answers conversations.
#[derive(Debug)]
pub struct Completions {
    name: String,
    chat: Arc<dyn Chat>,
    answers: Arc<Answers>,
    window: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Most tokens of a response, the thought included.
    pub max_tokens: u32,
    /// At 0 the likeliest token is taken.
    pub temperature: f64,
    /// Total probability of the tokens that may be sampled, above 0 and at most 1.
    pub top_p: f64,
    /// Texts that end a response before them; none may be empty.
    pub stop: Vec<String>,
    /// Seed of the first sample; later samples add their number. Without one, an endpoint chooses. A local model always
    /// gives the same response to the same request.
    pub seed: Option<u64>,
}

impl Completions {
    /// Opens the model of the settings `asap.anchor.*`.
    ///
    /// # Errors
    /// If a setting is wrong, or the session only estimates.
    pub fn new(config: &Config, llm: &Llm) -> Result<Self> {
        if llm.only_estimates() {
            return Err(LlmError::Setting("a session that only estimates sends no conversations".to_string()));
        }
        let model = llm.model(config)?;
        let (chat, window) = (Arc::clone(&model.chat), model.conversations);
        Ok(Self { name: model.name.clone(), chat, answers: llm.answers(), window })
    }

    /// Returns how many conversations should wait at once. A local model answers them in one batch.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Returns the models that the endpoint lists; None if it lists none, and for a local model. It costs nothing.
    ///
    /// # Errors
    /// If there is no connection to the endpoint.
    pub async fn served(&self) -> std::result::Result<Option<Vec<Served>>, CallError> {
        self.chat.served().await
    }

    /// Returns the response to a conversation, or the reason why it has none. `sample` is the index among the responses
    /// to this conversation, from 0: each sample is paid and stored on its own.
    ///
    /// # Errors
    /// If the store fails, the endpoint is down, or the runtime shuts down: the run must end.
    pub async fn respond(
        &self,
        messages: Vec<Message>,
        sample: u32,
        options: &Options,
    ) -> Result<std::result::Result<ChatResponse, CallError>> {
        let Options { max_tokens, temperature, top_p, seed, .. } = *options;
        let request = ChatRequest {
            model: self.name.clone(),
            messages,
            temperature,
            top_p,
            max_tokens,
            attempt: sample.saturating_add(1),
            template_hash: String::new(),
            stop: options.stop.clone(),
            seed: seed.map(|seed| seed.wrapping_add(u64::from(sample))),
            is_whole: true,
        };
        let answered = self.answers.ask(&self.chat, request, None).await?;
        match &*answered.outcome {
            Ok(answer) => {
                let response: ChatResponse =
                    serde_json::from_str(&answer.text).map_err(|error| LlmError::Request(error.to_string()))?;
                Ok(Ok(ChatResponse { cached: answered.is_cached, ..response }))
            }
            Err(error) => Ok(Err(error.clone())),
        }
    }
}
