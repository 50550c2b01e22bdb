//! Stage 1, row by row: the direct thought, and the coarse pruning that it anchors.

use std::sync::Arc;

use super::Result;
use super::answers::{Answers, Source};
use super::chat::{CallError, Chat, Kind, Outcome};
use super::fences::{language, unfenced};
use super::meter::{Prices, Usage};
use super::prompts::{Prompts, Template};
use super::request::{ChatRequest, Message};
use super::statement::Statement;
use crate::kernels::gestalt::Gestalt;
use crate::kernels::{matching, steps, tags};
use crate::settings::{OnNoMatch, Settings};

/// The most characters that an error quotes of a step.
const QUOTED: usize = 80;

/// The status of a row that has what was asked for.
pub const OK: &str = "ok";
/// The status of a row without a direct thought, or without what one is made of.
pub const NO_ANCHOR: &str = "no_anchor";
/// The status of a row whose chain is NULL or has no step.
pub const EMPTY_CHAIN: &str = "empty_chain";
/// The status of a row for which no attempt passed Algorithm 1.
pub const NO_MATCH: &str = "no_match";

/// What the answers of a row took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// Tokens of the prompts, also where the answers were there already.
    pub tokens_in: u64,
    /// Tokens of the answers, likewise.
    pub tokens_out: u64,
    /// Answers that were asked for.
    pub attempts: u32,
    /// What the row itself used: what other rows and earlier sessions paid is no part of it.
    pub own: Usage,
}

impl Spent {
    /// Whether the row was answered without a call of its own.
    pub fn is_cached(&self) -> bool {
        self.attempts > 0 && self.own.calls == 0
    }
}

/// A row's direct thought.
#[derive(Debug, Clone, PartialEq)]
pub struct Anchor {
    /// The thought; None unless the status is `ok`.
    pub thought: Option<String>,
    /// `ok`, `no_anchor` or the name of a [`Kind`].
    pub status: &'static str,
    /// Why there is no thought.
    pub error: Option<String>,
    /// What it took.
    pub spent: Spent,
}

/// A row's coarse pruning.
#[derive(Debug, Clone, PartialEq)]
pub struct Coarse {
    /// The pruning; None unless the status is `ok`.
    pub pruned: Option<Pruned>,
    /// `ok`, `no_anchor`, `empty_chain`, `no_match` or the name of a [`Kind`].
    pub status: &'static str,
    /// Why there is no pruning.
    pub error: Option<String>,
    /// What it took.
    pub spent: Spent,
}

/// A pruning that Algorithm 1 accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruned {
    /// The steps that are left, joined by a blank line.
    pub cot: String,
    /// The place in the original chain of the step that each matched, from 1.
    pub kept: Vec<i64>,
    /// The Gestalt similarity of each to the step that it matched.
    pub similarity: Vec<f64>,
}

/// The answer to a prompt of the row's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// The answer as it came; None unless the status is `ok`.
    pub text: Option<String>,
    /// `ok` or the name of a [`Kind`].
    pub status: &'static str,
    /// Why there is no answer.
    pub error: Option<String>,
    /// What it took.
    pub spent: Spent,
}

/// Stage 1 under one set of settings.
#[derive(Debug, Clone)]
pub struct Anchoring {
    statement: Option<Arc<Statement>>,
    chat: Arc<dyn Chat>,
    answers: Arc<Answers>,
    prompts: Arc<Prompts>,
    prices: Prices,
    model: String,
    max_tokens: u32,
    max_attempts: u32,
    threshold: f64,
    on_no_match: OnNoMatch,
    snap: bool,
}

impl Anchoring {
    /// Asks `model` of `chat`, unless `answers` knows what it would say.
    pub(super) fn new(
        settings: &Settings,
        model: &str,
        prompts: Prompts,
        chat: Arc<dyn Chat>,
        answers: Arc<Answers>,
    ) -> Self {
        Self {
            statement: None,
            chat,
            answers,
            prompts: Arc::new(prompts),
            prices: Prices::of(settings),
            model: model.to_string(),
            max_tokens: settings.anchor_max_tokens.0,
            max_attempts: settings.anchor_max_attempts.0,
            threshold: settings.match_threshold.0,
            on_no_match: settings.anchor_on_no_match,
            snap: settings.anchor_snap,
        }
    }

    /// The same for the rows of a statement: what fails in it is not asked again.
    pub fn within(&self, statement: Arc<Statement>) -> Self {
        Self { statement: Some(statement), ..self.clone() }
    }

    /// Why no failure of late can be trusted to be its row's own: the model is down, or it denies.
    pub(super) fn verdict(&self) -> Option<String> {
        self.chat.verdict()
    }

    /// Whether the model has ended and answers no more.
    pub(super) fn is_over(&self) -> bool {
        self.chat.is_over()
    }

    /// The direct thought from a question to its answer, at temperature 0.
    ///
    /// # Errors
    /// What ends the query; what fails this row is in its status.
    pub async fn anchor(&self, question: Option<&str>, answer: Option<&str>) -> Result<Anchor> {
        let failed = |status, error: String, spent| Anchor { thought: None, status, error: Some(error), spent };
        let (question, answer) = match given(question, answer) {
            Ok(given) => given,
            Err(error) => return Ok(failed(NO_ANCHOR, error.to_string(), Spent::default())),
        };
        let fields = [("question", question), ("answer", answer), ("language", language(answer))];
        let mut spent = Spent::default();
        let request = self.request(&self.prompts.anchor, &fields, 0.0);
        Ok(match &*self.ask(request, &mut spent).await? {
            Ok(said) => match steps::strip(&self.prompts.anchor.restore(reply(&said.text))) {
                "" => {
                    failed(Kind::BadResponse.name(), "expected a direct thought, found blank text".to_string(), spent)
                }
                thought => Anchor { thought: Some(thought.to_string()), status: OK, error: None, spent },
            },
            Err(error) => failed(error.kind.name(), error.message.clone(), spent),
        })
    }

    /// The coarse pruning of a chain by its direct thought, at temperature 1, sampled until Algorithm 1 accepts it.
    ///
    /// # Errors
    /// What ends the query; what fails this row is in its status.
    pub async fn coarse(&self, cot: Option<&str>, thought: Option<&str>) -> Result<Coarse> {
        let failed = |status, error: String, spent| Coarse { pruned: None, status, error: Some(error), spent };
        let (original, cot, thought) = match chain(cot, thought) {
            Ok(given) => given,
            Err((status, error)) => return Ok(failed(status, error.to_string(), Spent::default())),
        };
        let mut request = self.request(&self.prompts.coarse, &[("anchor", thought), ("cot", cot)], 1.0);
        let mut spent = Spent::default();
        let mut reason = String::new();
        for attempt in 1..=self.max_attempts {
            request.attempt = attempt;
            match &*self.ask(request.clone(), &mut spent).await? {
                Ok(said) => match self.accept(&original, &self.prompts.coarse.restore(reply(&said.text))) {
                    Ok(pruned) => return Ok(Coarse { pruned: Some(pruned), status: OK, error: None, spent }),
                    Err(why) => reason = why,
                },
                // What is cut off lacks its last steps: another sample may end in time.
                Err(error) if error.is_cut_off() => reason = error.message.clone(),
                Err(error) => return Ok(failed(error.kind.name(), error.message.clone(), spent)),
            }
        }
        Ok(match self.on_no_match {
            OnNoMatch::KeepOriginal => Coarse { pruned: Some(whole(&original)), status: OK, error: None, spent },
            OnNoMatch::Reject => {
                let tried = self.max_attempts;
                let error = format!("of {tried} answers none is made of steps of the chain; the last one: {reason}");
                failed(NO_MATCH, error, spent)
            }
        })
    }

    /// The answer to a prompt, which is sent as it is, at temperature 0.
    ///
    /// # Errors
    /// What ends the query; what fails this row is in its status.
    pub async fn complete(&self, prompt: &str) -> Result<Completion> {
        let mut spent = Spent::default();
        let request = self.user(prompt.to_string(), String::new(), 0.0);
        Ok(match &*self.ask(request, &mut spent).await? {
            Ok(said) => Completion { text: Some(said.text.clone()), status: OK, error: None, spent },
            Err(CallError { kind, message, .. }) => {
                Completion { text: None, status: kind.name(), error: Some(message.clone()), spent }
            }
        })
    }

    fn request(&self, template: &Template, fields: &[(&'static str, &str)], temperature: f64) -> ChatRequest {
        let request = self.user(template.fill(fields), template.hash().to_string(), temperature);
        ChatRequest { fields: fields.iter().map(|(field, text)| (*field, text.to_string())).collect(), ..request }
    }

    fn user(&self, content: String, prompt: String, temperature: f64) -> ChatRequest {
        ChatRequest {
            model: self.model.clone(),
            messages: vec![Message { role: "user", content }],
            temperature,
            top_p: 1.0,
            max_tokens: self.max_tokens,
            attempt: 1,
            prompt,
            fields: Vec::new(),
        }
    }

    async fn ask(&self, request: ChatRequest, spent: &mut Spent) -> Result<Arc<Outcome>> {
        let answered = self.answers.ask(&self.chat, request, self.statement.as_ref()).await?;
        let (tokens_in, tokens_out) = match &*answered.outcome {
            Ok(answer) => (answer.tokens_in, answer.tokens_out),
            Err(error) => (error.tokens_in, error.tokens_out),
        };
        spent.tokens_in = spent.tokens_in.saturating_add(tokens_in);
        spent.tokens_out = spent.tokens_out.saturating_add(tokens_out);
        spent.attempts += 1;
        let (own, is_failed) = (&mut spent.own, answered.outcome.is_err());
        own.failed += u64::from(is_failed);
        match answered.source {
            Source::Called => {
                own.calls += 1 + u64::from(answered.retries);
                own.retries += u64::from(answered.retries);
                own.tokens_in = own.tokens_in.saturating_add(tokens_in);
                own.tokens_out = own.tokens_out.saturating_add(tokens_out);
                own.cost += self.prices.cost(tokens_in, tokens_out);
            }
            Source::Shared if is_failed => {}
            Source::Kept | Source::Shared => own.cache_hits += 1,
        }
        Ok(answered.outcome)
    }

    /// Algorithm 1 on an answer: the pruning that it is, or why it is none.
    fn accept(&self, original: &[&str], answer: &str) -> std::result::Result<Pruned, String> {
        let coarse = steps::steps(answer);
        if coarse.is_empty() {
            return Err("it has no step".to_string());
        }
        let from: Vec<&str> = original.iter().copied().map(steps::strip).collect();
        let to: Vec<&str> = coarse.iter().copied().map(steps::strip).collect();
        let walk = matching::walk(&mut Gestalt::new(false), &from, &to, self.threshold);
        if let Some(failed) = walk.failed {
            let step: String = to[failed].chars().take(QUOTED).collect();
            let place = failed + 1;
            return Err(format!("its step {place} matches no step of the chain that is still to come: {step:?}"));
        }
        let cot = match self.snap {
            true => steps::join(walk.matches.iter().map(|found| original[found.step])),
            false => steps::join(coarse),
        };
        let kept = walk.matches.iter().map(|found| found.step as i64 + 1).collect();
        Ok(Pruned { cot, kept, similarity: walk.matches.iter().map(|found| found.similarity).collect() })
    }
}

/// What a coarse pruning is made of: the steps of the chain, the chain and the thought; or the status and error of what
/// is missing.
pub(crate) fn chain<'a>(
    cot: Option<&'a str>,
    thought: Option<&'a str>,
) -> std::result::Result<(Vec<&'a str>, &'a str, &'a str), (&'static str, &'static str)> {
    let thought = thought.ok_or((NO_ANCHOR, "a coarse pruning needs a direct thought, found NULL"))?;
    let cot = cot.ok_or((EMPTY_CHAIN, "a coarse pruning needs a chain of thought, found NULL"))?;
    let original = steps::steps(cot);
    if original.is_empty() {
        return Err((EMPTY_CHAIN, "a coarse pruning needs a chain of thought, found one without a step"));
    }
    Ok((original, cot, thought))
}

/// What a direct thought is made of, or what is missing.
pub(crate) fn given<'a>(
    question: Option<&'a str>,
    answer: Option<&'a str>,
) -> std::result::Result<(&'a str, &'a str), &'static str> {
    let question = question.ok_or("a direct thought needs a question, found NULL")?;
    let answer = answer.ok_or("a direct thought needs an answer, found NULL")?;
    if steps::strip(answer).is_empty() {
        return Err("a direct thought needs an answer, found blank text");
    }
    Ok((question, answer))
}

/// What a model replied: without its own thinking, and without fences around the whole.
fn reply(text: &str) -> &str {
    unfenced(tags::response(text).unwrap_or(text))
}

fn whole(original: &[&str]) -> Pruned {
    Pruned {
        cot: steps::join(original.iter().copied()),
        kept: (1..=original.len() as i64).collect(),
        similarity: vec![1.0; original.len()],
    }
}
