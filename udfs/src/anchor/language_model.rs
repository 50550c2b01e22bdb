//! The anchorer with a language model, at an endpoint or in this process: it writes direct thoughts and prunes by
//! them.

use std::sync::Arc;

use asap_kernels::code_fences::{code, language, unfenced};
use asap_kernels::front_end::Setting;
use asap_kernels::steps::{Separator, strip};
use asap_kernels::tags;
use async_trait::async_trait;
use datafusion::common::config_err;

use super::algorithm1::accept;
use super::estimate::{Estimate, Estimated, Stub};
use super::prompts::{Prompts, Template};
use super::{Anchored, Anchorer, InStatement, NO_MATCH, Pruned, Refusal, Spent};
use crate::llm::failed;
use crate::settings::Settings;
use asap_llm::answers::Answers;
use asap_llm::chat::{Chat, FailureKind, Outcome};
use asap_llm::request::{ChatRequest, Message};
use asap_llm::{Llm, Result};

#[derive(Debug)]
pub(crate) struct LanguageModel {
    name: String,
    chat: Arc<dyn Chat>,
    /// Takes the place of calls if only their cost is estimated.
    estimate: Option<Arc<Estimate>>,
    answers: Arc<Answers>,
    prompts: Prompts,
    window: usize,
    max_tokens: u32,
    /// None: no limit but that of calls or cost.
    max_attempts: Option<u32>,
    threshold: f64,
    separator: Separator,
}

impl LanguageModel {
    pub(crate) fn new(settings: &Settings, llm: &Llm) -> datafusion::common::Result<Self> {
        let max_attempts = u32::try_from(settings.anchor_max_attempts).unwrap_or(u32::MAX);
        let is_limited = settings.anchor_max_calls.is_some() || settings.anchor_max_cost.is_some();
        if max_attempts == 0 && !is_limited {
            return config_err!(
                "{} = 0 asks for each chain until an answer is valid: limit what that may cost with {} or {}",
                Setting("asap.anchor.max_attempts"),
                Setting("asap.anchor.max_calls"),
                Setting("asap.anchor.max_cost")
            );
        }
        settings.apply_hub();
        let model = llm.model(&settings.language_model()).map_err(failed)?;
        Ok(Self {
            name: model.name.clone(),
            chat: Arc::clone(&model.chat),
            answers: llm.answers(),
            prompts: Prompts::of(settings)?,
            window: model.window,
            max_tokens: settings.anchor_max_tokens.0,
            max_attempts: Some(max_attempts).filter(|attempts| *attempts > 0),
            threshold: settings.match_threshold.0,
            separator: settings.chain_steps,
            estimate: if llm.only_estimates() { Some(Arc::new(Estimate::new(settings, llm)?)) } else { None },
        })
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
            ..ChatRequest::default()
        }
    }

    /// Requests an answer. In an estimate, `stub` answers instead of the model.
    async fn ask(
        &self,
        request: ChatRequest,
        stub: impl FnOnce() -> Stub,
        statement: InStatement<'_>,
        spent: &mut Spent,
    ) -> Result<Arc<Outcome>> {
        let chat: Arc<dyn Chat> = match &self.estimate {
            None => Arc::clone(&self.chat),
            Some(estimate) => Arc::new(Estimated { estimate: Arc::clone(estimate), stub: Arc::new(stub()) }),
        };
        let answered = self.answers.ask(&chat, request, statement).await?;
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

    async fn thought(&self, question: &str, answer: &str, statement: InStatement<'_>) -> Result<Anchored<String>> {
        let fields =
            [("question", question), ("answer", answer), ("answer_code", code(answer)), ("language", language(answer))];
        let mut spent = Spent::default();
        let request = self.request(&self.prompts.anchor, &fields, 0.0);
        let stub = || Stub::Thought { question: question.to_string(), answer: answer.to_string() };
        let outcome = match &*self.ask(request, stub, statement, &mut spent).await? {
            Ok(said) => match strip(&self.prompts.anchor.restore(reply(&said.text))) {
                "" => Err(Refusal::of_call(FailureKind::BadResponse, "expected a direct thought, found blank text")),
                thought => Ok(thought.to_string()),
            },
            Err(error) => Err(Refusal::of_call(error.kind, &error.message)),
        };
        Ok(Anchored { outcome, spent })
    }

    /// Requests the coarse pruning at temperature 1, until Algorithm 1 accepts a sample.
    async fn pruning(&self, cot: &str, thought: &str, statement: InStatement<'_>) -> Result<Anchored<Pruned>> {
        let original = self.separator.steps(cot);
        let mut request = self.request(&self.prompts.coarse, &[("anchor", thought), ("cot", cot)], 1.0);
        let mut spent = Spent::default();
        let mut reason = String::new();
        while self.max_attempts.is_none_or(|most| spent.attempts < most) {
            request.attempt = spent.attempts + 1;
            let stub =
                || Stub::Pruning { cot: cot.to_string(), thought: thought.to_string(), separator: self.separator };
            match &*self.ask(request.clone(), stub, statement, &mut spent).await? {
                Ok(said) => {
                    let answer = self.prompts.coarse.restore(reply(&said.text));
                    match accept(&original, &self.separator.steps(&answer), self.threshold) {
                        Ok(pruned) => return Ok(Anchored { outcome: Ok(pruned), spent }),
                        Err(why) => reason = why,
                    }
                }
                // A cut-off answer lacks its last steps; another sample may be shorter.
                Err(error) if error.is_cut_off() => reason = error.message.clone(),
                Err(error) => {
                    return Ok(Anchored { outcome: Err(Refusal::of_call(error.kind, &error.message)), spent });
                }
            }
        }
        let tried = spent.attempts;
        let error = format!("none of {tried} answers consists of steps of the chain; the last one: {reason}");
        Ok(Anchored { outcome: Err(Refusal::new(NO_MATCH, error)), spent })
    }

    async fn complete(&self, prompt: &str, statement: InStatement<'_>) -> Result<Anchored<String>> {
        let mut spent = Spent::default();
        let request = self.user(prompt.to_string(), String::new(), 0.0);
        let outcome = match &*self.ask(request, || Stub::Longest, statement, &mut spent).await? {
            Ok(said) => Ok(said.text.clone()),
            Err(error) => Err(Refusal::of_call(error.kind, &error.message)),
        };
        Ok(Anchored { outcome, spent })
    }
}

/// Returns a reply without the model's own thinking and without fences around the whole.
fn reply(text: &str) -> &str {
    unfenced(tags::after_chain(text).unwrap_or(text))
}
