//! A language model at an endpoint over HTTP.

use std::sync::Arc;
use std::time::Instant;

use asap_kernels::front_end::Setting;
use async_trait::async_trait;
use parking_lot::Mutex;

use crate::chat::{Answer, CallError, Chat, Defaults, FailureKind, Received, Reply, Served, Standing};
use crate::flights::Callers;
use crate::learn::form::Sent;
use crate::learn::refusal::{self, Advice};
use crate::pay::meter::Meter;
use crate::request::ChatRequest;
use crate::send::config::Config;
use crate::send::health::OwnCalls;
use crate::send::line::{BYTES_AROUND, Estimate, Line, Posted};
use crate::send::openai;
use crate::send::response::{self, Failure};

/// A response is read up to this many bytes per token: more than any token needs, escapes and thinking included.
const BYTES_PER_TOKEN: usize = 64;
const TEMPLATE_TOKENS: u64 = 64;
/// The most forms in which a refused request is sent again.
const FORMS: u32 = 16;

#[derive(Debug)]
pub(crate) struct HttpChat {
    line: Line,
}

impl HttpChat {
    pub(crate) fn new(config: &Config, meter: Arc<Meter>, own: Arc<Mutex<OwnCalls>>) -> crate::Result<Self> {
        let base_url = config.base_url(openai::PATH)?;
        Ok(Self { line: Line::new(openai::PATH, config, &base_url, meter, own)? })
    }

    /// Returns how many rows may wait: twice as many as calls, so that a slow row does not hold up the rows after it.
    pub(crate) fn window(&self) -> usize {
        2 * self.line.config.limits.at_once as usize
    }

    /// Sends a request, and again in the form that a refusal asks for. The endpoint generates nothing for a refused
    /// request, so the request keeps its place: calls that wait then start with what this one has learnt.
    async fn post_as_accepted(&self, request: &ChatRequest) -> Posted<Answer> {
        let mut sent = self.line.endpoint.forms.of(request, self.line.config.forced);
        let mut forms = 0;
        loop {
            let (result, tokens) = self.post(request, sent).await;
            match (self.learn(&result, request, sent).await, result) {
                (Some(Advice::Resend(next)), _) if forms < FORMS => (sent, forms) = (next, forms + 1),
                (Some(Advice::RefusesAll(what)), Err(Failure { error, .. })) => {
                    let message = format!("{} refuses {what}; its answer: {error}", self.line.base_url());
                    return (Err(Failure::lasting(FailureKind::EndpointDown, message)), tokens);
                }
                (Some(Advice::TooLong), Err(Failure { error, .. })) => {
                    let error = CallError { kind: FailureKind::TooLong, is_general: false, ..error };
                    return (Err(Failure::of(error)), tokens);
                }
                (_, result) => return (result, tokens),
            }
        }
    }

    /// Keeps the form of a request that was answered, or returns what to do with a refused request.
    async fn learn(&self, result: &Result<Answer, Failure>, request: &ChatRequest, sent: Sent) -> Option<Advice> {
        let failure = match result {
            Err(failure) if !failure.error.is_answer() => failure,
            _ => {
                if let Some(news) = self.line.endpoint.forms.keep(&request.model, sent.form, self.line.config.forced) {
                    let (url, model) = (self.line.base_url(), &request.model);
                    tracing::warn!("{url} refuses requests for {model} as asap writes them, so asap sends {news}");
                }
                return None;
            }
        };
        let words = failure.refusal.as_ref()?;
        let is_too_long = failure.error.kind == FailureKind::TooLong;
        let mut listed = None;
        if is_too_long && self.line.config.forced.window.is_none() && refusal::needs_list(words) {
            let served = async || self.served().await.ok().flatten().unwrap_or_default();
            let served = self.line.endpoint.served.get_or_init(served).await;
            listed = served.iter().find(|served| served.id == request.model).and_then(|served| served.window);
        }
        refusal::advice(words, is_too_long, request, sent, self.line.config.forced, listed)
    }

    async fn post(&self, request: &ChatRequest, sent: Sent) -> Posted<Answer> {
        let begun = Instant::now();
        let body = match openai::body(request, sent) {
            Ok(body) => body,
            Err(error) => return (Err(Failure::lasting(FailureKind::Refused, error.to_string())), Some((0, 0))),
        };
        let limit = BYTES_AROUND.saturating_add(BYTES_PER_TOKEN.saturating_mul(request.max_tokens as usize));
        let Received { status, headers, text } = match self.line.post(body, limit).await {
            Ok(received) => received,
            Err((failure, tokens)) => return (Err(failure), tokens),
        };
        let whole = request.is_whole.then(|| begun.elapsed().as_secs_f64());
        let redact = |text| self.line.without_key(text);
        let result = response::read(status, &headers, &text, request.bytes(), whole, &redact);
        let [_, no_temperature, no_top_p] = sent.form.changes;
        let result = result.map(|answer| Answer { defaults: Defaults([no_temperature, no_top_p]), ..answer });
        let tokens = match &result {
            Ok(answer) => Some((answer.tokens_in, answer.tokens_out)),
            // The cost of an invalid response is unknown.
            Err(Failure { error, .. }) if error.kind == FailureKind::BadResponse && error.tokens_out == 0 => None,
            Err(Failure { error, .. }) => Some((error.tokens_in, error.tokens_out)),
        };
        (result, tokens)
    }
}

#[async_trait]
impl Chat for HttpChat {
    async fn chat(&self, request: &ChatRequest, callers: &Arc<Callers>) -> Reply {
        // No token is shorter than a byte.
        let most_in = request.bytes() as u64 + TEMPLATE_TOKENS;
        let cost = self.line.config.prices.cost(most_in, u64::from(request.max_tokens));
        let estimate = Estimate { tokens: estimated_tokens(request), cost };
        let Reply { outcome, used, paying } =
            self.line.send(estimate, Some(callers), || self.post_as_accepted(request)).await;
        let asked = match request.is_whole {
            true => "the limit of the response in tokens".to_string(),
            false => Setting("asap.anchor.max_tokens").to_string(),
        };
        let outcome = outcome.map_err(|error| match error.kind {
            FailureKind::TooLong => CallError {
                message: format!(
                    "{}{} (the prompt has {} bytes, {asked} is {})",
                    error.message,
                    cut_off_by_window(&error, request.max_tokens),
                    request.bytes(),
                    request.max_tokens
                ),
                ..error
            },
            _ => error,
        });
        Reply { outcome, used, paying }
    }

    async fn served(&self) -> Result<Option<Vec<Served>>, CallError> {
        self.line.served().await
    }

    fn standing(&self, calls: u64) -> Standing {
        self.line.health.standing(calls, Instant::now())
    }
}

/// Estimates the tokens of a call: one per four bytes, and an answer no longer than the prompt.
fn estimated_tokens(request: &ChatRequest) -> u64 {
    let tokens_in = request.bytes().div_ceil(4) as u64;
    tokens_in + tokens_in.min(u64::from(request.max_tokens))
}

/// Returns what cut off an answer before the limit of its request.
fn cut_off_by_window(error: &CallError, limit: u32) -> String {
    let CallError { tokens_in, tokens_out, .. } = error;
    if !error.is_cut_off() || *tokens_out >= u64::from(limit) {
        return String::new();
    }
    let all = tokens_in + tokens_out;
    format!(" by the endpoint's window or own limit, {all} tokens with the prompt's {tokens_in}")
}

#[cfg(test)]
mod tests;
