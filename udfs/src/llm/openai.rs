//! An endpoint that speaks OpenAI's chat completions: `POST {base_url}/chat/completions`, nothing else.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::common::{Result, config_datafusion_err};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, Response, Url, redirect};
use serde::Serialize;

use super::breaker::Breaker;
use super::chat::{Answer, CallError, Chat, Kind, Said};
use super::limits::Endpoint;
use super::meter::{Budget, Meter, Prices};
use super::request::{ChatRequest, Message};
use super::response::{self, Failure};
use super::retry;
use super::secret::Secret;
use crate::flights::Waiters;
use crate::settings::Settings;

/// How long connecting may take, within the time of the whole request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read of a response: more than any token takes, also with escapes and thinking, ...
const BYTES_PER_TOKEN: usize = 64;
/// ... and what stands around the text.
const BYTES_AROUND: usize = 64 << 10;
/// Tokens that a chat template may add to a request's messages.
const TEMPLATE_TOKENS: u64 = 64;

/// A client of one endpoint and model.
pub struct OpenAi {
    client: Client,
    url: Url,
    key: Option<Secret>,
    timeout: Duration,
    max_retries: u32,
    at_once: u32,
    requests_per_minute: Option<u32>,
    tokens_per_minute: Option<u32>,
    prices: Prices,
    budget: Budget,
    endpoint: Arc<Endpoint>,
    breaker: Breaker,
    meter: Arc<Meter>,
}

// Settings of the HTTP client may hold a proxy's password, so it is not shown.
impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// What is sent.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    temperature: f64,
    top_p: f64,
    max_tokens: u32,
}

impl OpenAi {
    /// A client for the endpoint at `base_url`; `settings` were checked.
    ///
    /// # Errors
    /// If no HTTP client can be built.
    pub fn new(settings: &Settings, base_url: &Url, key: Option<Secret>, meter: Arc<Meter>) -> Result<Self> {
        let failed = |error: String| config_datafusion_err!("asap.anchor.base_url = '{base_url}': {error}");
        let address = base_url.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{address}/chat/completions")).map_err(|error| failed(error.to_string()))?;
        let builder = Client::builder()
            .user_agent(concat!("asap/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        let builder = if is_loopback(&url) { builder.no_proxy() } else { builder };
        Ok(Self {
            client: builder.build().map_err(|error| failed(error.to_string()))?,
            key,
            timeout: settings.anchor_timeout.duration(),
            max_retries: settings.anchor_max_retries.try_into().unwrap_or(u32::MAX),
            at_once: settings.anchor_max_concurrent_requests.0,
            requests_per_minute: settings.anchor_max_requests_per_minute.map(|number| number.0),
            tokens_per_minute: settings.anchor_max_tokens_per_minute.map(|number| number.0),
            prices: Prices::of(settings),
            budget: Budget::of(settings),
            endpoint: Endpoint::at(address),
            breaker: Breaker::new(address, settings.anchor_max_error_rate.0),
            meter,
            url,
        })
    }

    /// Sends a request until it is answered, fails for good, or was retried often enough.
    async fn send(&self, request: &ChatRequest, waiters: &Waiters) -> Said {
        let mut retries = 0;
        loop {
            if let Err(down) = self.breaker.check(Instant::now()) {
                return Said { outcome: Err(down), retries };
            }
            let failure = match self.send_once(request, waiters).await {
                Ok(answer) => return Said { outcome: Ok(answer), retries },
                Err(failure) => failure,
            };
            if !failure.is_passing || retries >= self.max_retries {
                let CallError { message, .. } = &failure.error;
                let message = if retries == 0 { message.clone() } else { format!("{message} (retries: {retries})") };
                return Said { outcome: Err(CallError { message, ..failure.error }), retries };
            }
            if failure.error.kind == Kind::Timeout {
                // With its retries a call may take an hour: a server that hangs is noticed before.
                self.breaker.record(&Err(failure.error), Instant::now());
            }
            waiters.release();
            tokio::time::sleep(retry::pause(retries, failure.after)).await;
            retries += 1;
            self.meter.retry();
        }
    }

    async fn send_once(&self, request: &ChatRequest, waiters: &Waiters) -> std::result::Result<Answer, Failure> {
        let estimate = estimated_tokens(request);
        self.endpoint.requests.wait(1, self.requests_per_minute).await;
        self.endpoint.tokens.wait(estimate, self.tokens_per_minute).await;
        // No token is shorter than a byte.
        let most_in = request.bytes() as u64 + TEMPLATE_TOKENS;
        let most = self.prices.cost(most_in, u64::from(request.max_tokens));
        let reservation = self.meter.reserve(self.budget, most).await.map_err(|error| Failure {
            error,
            is_passing: false,
            after: None,
        })?;
        if !waiters.hold() {
            reservation.give_back();
            return Err(Failure::lasting(Kind::Unavailable, "nobody waits for the answer any longer"));
        }
        let (result, tokens) = self.post(request).await;
        if let Some((tokens_in, tokens_out)) = tokens {
            self.endpoint.tokens.correct(estimate, tokens_in.saturating_add(tokens_out), self.tokens_per_minute);
            reservation.settle(tokens_in, tokens_out, self.prices);
        }
        result
    }

    /// One request over the network, and the tokens that it took, if that is known.
    async fn post(&self, request: &ChatRequest) -> (std::result::Result<Answer, Failure>, Option<(u64, u64)>) {
        let ChatRequest { model, messages, temperature, top_p, max_tokens, .. } = request;
        let body = Body { model, messages, temperature: *temperature, top_p: *top_p, max_tokens: *max_tokens };
        let body = match serde_json::to_vec(&body) {
            Ok(body) => body,
            Err(error) => return (Err(Failure::lasting(Kind::Refused, error.to_string())), Some((0, 0))),
        };
        let mut post = self.client.post(self.url.clone()).timeout(self.timeout);
        if let Some(bearer) = self.key.as_ref().and_then(Secret::bearer) {
            post = post.header(AUTHORIZATION, bearer);
        }
        let response = match post.header(CONTENT_TYPE, "application/json").body(body).send().await {
            Ok(response) => response,
            Err(error) => return (Err(self.broken(&error)), error.is_connect().then_some((0, 0))),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let limit = BYTES_AROUND.saturating_add(BYTES_PER_TOKEN.saturating_mul(*max_tokens as usize));
        let text = match self.text(response, limit).await {
            Ok(text) => text,
            Err(failure) => return (Err(failure), None),
        };
        let result = response::read(status, &headers, &text, request.bytes(), &|text| self.without_key(text));
        let tokens = match &result {
            Ok(answer) => Some((answer.tokens_in, answer.tokens_out)),
            // Nobody knows what was paid for a response that makes no sense.
            Err(Failure { error, .. }) if error.kind == Kind::BadResponse && error.tokens_out == 0 => None,
            Err(Failure { error, .. }) => Some((error.tokens_in, error.tokens_out)),
        };
        (result, tokens)
    }

    /// A response's body.
    async fn text(&self, mut response: Response, limit: usize) -> std::result::Result<String, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
            if bytes.len() + chunk.len() > limit {
                let message = format!("expected at most {limit} bytes for asap.anchor.max_tokens, found more");
                return Err(Failure::lasting(Kind::BadResponse, message));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(self.without_key(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// A text from the endpoint without the key, which it may send back.
    fn without_key(&self, text: String) -> String {
        match &self.key {
            Some(key) => key.redact(text),
            None => text,
        }
    }

    fn broken(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() && !error.is_connect() {
            let seconds = self.timeout.as_secs_f64();
            let message = format!("no complete answer after {seconds} s (asap.anchor.timeout)");
            return Failure::passing(Kind::Timeout, message);
        }
        let what = if error.is_connect() { "cannot connect to the endpoint" } else { "the connection broke" };
        Failure::passing(Kind::Unavailable, format!("{what}: {}", innermost(error)))
    }
}

#[async_trait]
impl Chat for OpenAi {
    async fn chat(&self, request: &ChatRequest, waiters: &Waiters) -> Said {
        // Held through all retries: calls that wait to be sent again keep further ones from a busy endpoint.
        let _slot = self.endpoint.slot(self.at_once).await;
        let Said { outcome, retries } = self.send(request, waiters).await;
        self.breaker.record(&outcome, Instant::now());
        let outcome = outcome.map_err(|error| match error.kind {
            Kind::TooLong => CallError {
                message: format!(
                    "{} (the prompt has {} bytes, asap.anchor.max_tokens is {})",
                    error.message,
                    request.bytes(),
                    request.max_tokens
                ),
                ..error
            },
            _ => error,
        });
        Said { outcome, retries }
    }
}

/// What a call probably takes: a token for four bytes, and an answer no longer than the prompt.
fn estimated_tokens(request: &ChatRequest) -> u64 {
    let tokens_in = request.bytes().div_ceil(4) as u64;
    tokens_in + tokens_in.min(u64::from(request.max_tokens))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The cause behind all wrappers, which repeat addresses and say little.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_name_and_number() {
        for (url, expected) in [
            ("http://localhost:1/v1", true),
            ("http://127.0.0.9", true),
            ("http://[::1]:8000", true),
            ("https://localhost.example.org", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
