//! The anchorer with a language model, at an endpoint or in a local folder: it writes direct thoughts and prunes by
//! them.

use std::sync::Arc;

use asap_kernels::code_fences::{language, unfenced};
use asap_kernels::{steps, tags};
use async_trait::async_trait;

use super::algorithm1::accept;
use super::prompts::{Prompts, Template};
use super::{Anchorer, NO_MATCH, Pruned, Refusal, Row, Spent, chain_and_thought, question_and_answer};
use crate::llm::answers::Answers;
use crate::llm::chat::{Chat, FailureKind, Outcome};
use crate::llm::request::{ChatRequest, Message};
use crate::llm::{Llm, Result, Statement};
use crate::settings::Settings;

#[derive(Debug)]
pub(crate) struct LanguageModel {
    name: String,
    chat: Arc<dyn Chat>,
    answers: Arc<Answers>,
    prompts: Prompts,
    window: usize,
    max_tokens: u32,
    max_attempts: u32,
    threshold: f64,
}

#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub chat: &'a Arc<dyn Chat>,
    pub statement: Option<&'a Arc<Statement>>,
}

impl LanguageModel {
    pub(crate) fn new(settings: &Settings, llm: &Llm) -> datafusion::common::Result<Self> {
        let model = llm.model(settings)?;
        Ok(Self {
            name: model.name.clone(),
            chat: Arc::clone(&model.chat),
            answers: llm.answers(),
            prompts: Prompts::load(settings.anchor_prompt_dir.as_deref())?,
            window: model.window,
            max_tokens: settings.anchor_max_tokens.0,
            max_attempts: settings.anchor_max_attempts.0,
            threshold: settings.match_threshold.0,
        })
    }

    pub(super) async fn thought(&self, question: &str, answer: &str, way: Way<'_>) -> Result<Row<String>> {
        let fields = [("question", question), ("answer", answer), ("language", language(answer))];
        let mut spent = Spent::default();
        let request = self.request(&self.prompts.anchor, &fields, 0.0);
        let outcome = match &*self.ask(request, way, &mut spent).await? {
            Ok(said) => match steps::strip(&self.prompts.anchor.restore(reply(&said.text))) {
                "" => Err(Refusal::of_call(FailureKind::BadResponse, "expected a direct thought, found blank text")),
                thought => Ok(thought.to_string()),
            },
            Err(error) => Err(Refusal::of_call(error.kind, &error.message)),
        };
        Ok(Row { outcome, spent })
    }

    /// Requests the coarse pruning at temperature 1, until Algorithm 1 accepts a sample.
    pub(super) async fn pruning(
        &self,
        cot: &str,
        original: &[&str],
        thought: &str,
        way: Way<'_>,
    ) -> Result<Row<Pruned>> {
        let mut request = self.request(&self.prompts.coarse, &[("anchor", thought), ("cot", cot)], 1.0);
        let mut spent = Spent::default();
        let mut reason = String::new();
        for attempt in 1..=self.max_attempts {
            request.attempt = attempt;
            match &*self.ask(request.clone(), way, &mut spent).await? {
                Ok(said) => {
                    let answer = self.prompts.coarse.restore(reply(&said.text));
                    match accept(original, &answer, self.threshold) {
                        Ok(pruned) => return Ok(Row { outcome: Ok(pruned), spent }),
                        Err(why) => reason = why,
                    }
                }
                // A cut-off answer lacks its last steps; another sample may be shorter.
                Err(error) if error.is_cut_off() => reason = error.message.clone(),
                Err(error) => return Ok(Row { outcome: Err(Refusal::of_call(error.kind, &error.message)), spent }),
            }
        }
        let tried = self.max_attempts;
        let error = format!("none of {tried} answers consists of steps of the chain; the last one: {reason}");
        Ok(Row { outcome: Err(Refusal::new(NO_MATCH, error)), spent })
    }

    pub(super) async fn completion(&self, prompt: &str, way: Way<'_>) -> Result<Row<String>> {
        let mut spent = Spent::default();
        let request = self.user(prompt.to_string(), String::new(), 0.0);
        let outcome = match &*self.ask(request, way, &mut spent).await? {
            Ok(said) => Ok(said.text.clone()),
            Err(error) => Err(Refusal::of_call(error.kind, &error.message)),
        };
        Ok(Row { outcome, spent })
    }

    fn way<'a>(&'a self, statement: Option<&'a Arc<Statement>>) -> Way<'a> {
        Way { chat: &self.chat, statement }
    }

    fn request(&self, template: &Template, fields: &[(&str, &str)], temperature: f64) -> ChatRequest {
        self.user(template.fill(fields), template.hash().to_string(), temperature)
    }

    fn user(&self, content: String, template_hash: String, temperature: f64) -> ChatRequest {
        ChatRequest {
            model: self.name.clone(),
            messages: vec![Message { role: "user", content }],
            temperature,
            top_p: 1.0,
            max_tokens: self.max_tokens,
            attempt: 1,
            template_hash,
        }
    }

    async fn ask(&self, request: ChatRequest, way: Way<'_>, spent: &mut Spent) -> Result<Arc<Outcome>> {
        let answered = self.answers.ask(way.chat, request, way.statement).await?;
        let (tokens_in, tokens_out) = match &*answered.outcome {
            Ok(answer) => (answer.tokens_in, answer.tokens_out),
            Err(error) => (error.tokens_in, error.tokens_out),
        };
        spent.tokens_in = spent.tokens_in.saturating_add(tokens_in);
        spent.tokens_out = spent.tokens_out.saturating_add(tokens_out);
        spent.attempts += 1;
        spent.own += answered.used;
        Ok(answered.outcome)
    }
}

#[async_trait]
impl Anchorer for LanguageModel {
    fn window(&self) -> usize {
        self.window
    }

    fn is_over(&self) -> bool {
        self.chat.is_over()
    }

    async fn anchor(
        &self,
        question: Option<&str>,
        answer: Option<&str>,
        statement: Option<&Arc<Statement>>,
    ) -> Result<Row<String>> {
        match question_and_answer(question, answer) {
            Ok((question, answer)) => self.thought(question, answer, self.way(statement)).await,
            Err(refusal) => Ok(Row::unasked(Err(refusal))),
        }
    }

    async fn coarse(
        &self,
        cot: Option<&str>,
        thought: Option<&str>,
        statement: Option<&Arc<Statement>>,
    ) -> Result<Row<Pruned>> {
        match chain_and_thought(cot, thought) {
            Ok((cot, original, thought)) => self.pruning(cot, &original, thought, self.way(statement)).await,
            Err(refusal) => Ok(Row::unasked(Err(refusal))),
        }
    }

    async fn complete(&self, prompt: &str, statement: Option<&Arc<Statement>>) -> Result<Row<String>> {
        self.completion(prompt, self.way(statement)).await
    }
}

/// Returns a reply without the model's own thinking and without fences around the whole.
fn reply(text: &str) -> &str {
    unfenced(tags::after_chain(text).unwrap_or(text))
}
