//! A language model at an endpoint over HTTP, in any [`Api`].

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, iter};

use async_trait::async_trait;
use chrono::Utc;
use parking_lot::Mutex;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, Url};

use crate::api::Api;
use crate::chat::{Answer, CallError, Chat, Defaults, FailureKind, Outcome, Reply, Served, Standing};
use crate::config::Config;
use crate::endpoint::{CONNECT_TIMEOUT, Endpoint};
use crate::flights::{Callers, Paying};
use crate::form::Sent;
use crate::health::{Health, OwnCalls};
use crate::json;
use crate::meter::Meter;
use crate::refusal::{self, Advice};
use crate::request::ChatRequest;
use crate::response::{self, Failure};
use crate::retry;
use crate::secret::Secret;
use crate::throttle::{Admitted, Limited, Pause};
use crate::usage::Usage;
use tracing::Instrument;

/// A response is read up to this many bytes per token: more than any token needs, escapes and thinking included.
const BYTES_PER_TOKEN: usize = 64;
const BYTES_AROUND: usize = 64 << 10;
const TEMPLATE_TOKENS: u64 = 64;
/// The most forms in which a refused request is sent again.
const FORMS: u32 = 16;
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct HttpChat {
    api: &'static Api,
    endpoint: Arc<Endpoint>,
    config: Config,
    key: Option<Secret>,
    health: Health,
    meter: Arc<Meter>,
}

// The HTTP client is not shown: its settings may contain a proxy's password.
impl fmt::Debug for HttpChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpChat").field("url", &self.endpoint.url.as_str()).finish_non_exhaustive()
    }
}

impl HttpChat {
    pub(crate) fn new(
        api: &'static Api,
        config: &Config,
        base_url: &Url,
        key: Option<Secret>,
        meter: Arc<Meter>,
        own: Arc<Mutex<OwnCalls>>,
    ) -> crate::Result<Self> {
        let endpoint = Endpoint::at(base_url, api.path)?;
        let address = endpoint.url.as_str().trim_end_matches(api.path);
        let account = key.as_ref().map_or(0, Secret::account);
        Ok(Self {
            api,
            health: Health::new(address, Arc::clone(&endpoint.calls), own, account, config.max_error_rate),
            endpoint,
            key,
            config: config.clone(),
            meter,
        })
    }

    /// Returns how many rows may wait: twice as many as calls, so that a slow row does not hold up the rows after it.
    pub(crate) fn window(&self) -> usize {
        2 * self.config.limits.at_once as usize
    }

    /// Sends a request until it is answered, fails for good, or has no retries left. A request that the endpoint limits
    /// is sent again for as long as the endpoint answers others.
    async fn send(&self, request: &ChatRequest, callers: &Arc<Callers>) -> Reply {
        let denials = self.health.denials();
        let (mut used, mut retries, mut alone, mut answered) = (Usage::default(), 0, 0, 0);
        loop {
            if let Err(down) = self.health.admit(Instant::now()) {
                return self.end(denials, Err(down), used, None);
            }
            let (tried, in_flight) = self.try_once(request, callers, &mut used).await;
            let FailedAttempt { failure, limited } = match tried {
                Ok(answer) => return self.end(denials, Ok(answer), used, in_flight),
                Err(tried) => tried,
            };
            alone = match limited {
                Some(limited) if limited.is_alone && limited.answered == answered => alone + 1,
                limited => u32::from(limited.is_some_and(|limited| limited.is_alone)),
            };
            answered = limited.map_or(answered, |limited| limited.answered);
            let is_over = match limited {
                Some(Limited { stops, .. }) => stops.max(alone) > self.config.max_retries,
                None => !failure.is_passing || retries >= self.config.max_retries,
            };
            if is_over {
                let CallError { message, .. } = &failure.error;
                let message = match &in_flight {
                    Some(_) if used.retries > 0 => format!("{message} (retries: {})", used.retries),
                    _ => message.clone(),
                };
                let outcome = Err(CallError { message, ..failure.error });
                return self.end(denials, outcome, used, in_flight);
            }
            // From here on another call may start, and this one is aborted if no caller waits.
            drop(in_flight);
            let pause = match limited {
                Some(_) if alone == 0 => self.made(failure.after),
                // The first limit may be chance.
                Some(_) if alone == 1 => self.made(failure.after) + retry::pause(0, retry::jitter()) / 8,
                Some(_) => self.made(failure.after) + retry::pause(alone - 1, retry::jitter()),
                None => retry::pause(retries, retry::jitter()),
            };
            retries += u32::from(limited.is_none());
            if self.health.admit(Instant::now()).is_ok() {
                self.announce(&failure, pause);
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Returns the outcome of a request. It is reported before another call may take its place.
    fn end(&self, denials: u64, outcome: Outcome, used: Usage, in_flight: Option<InFlight>) -> Reply {
        let outcome = self.health.report(outcome, denials, Instant::now());
        Reply { outcome, used, paying: in_flight.map(|in_flight| in_flight.paying) }
    }

    /// Sends one request. Returns what it holds if it was sent, and adds its usage to `used`.
    async fn try_once(
        &self,
        request: &ChatRequest,
        callers: &Arc<Callers>,
        used: &mut Usage,
    ) -> (Result<Answer, FailedAttempt>, Option<InFlight>) {
        let estimate = estimated_tokens(request);
        let unsent = |error| (Err(FailedAttempt { failure: Failure::of(error), limited: None }), None);
        let admitted = self.endpoint.throttle.admit(self.config.limits, estimate).await;
        // No token is shorter than a byte.
        let most_in = request.bytes() as u64 + TEMPLATE_TOKENS;
        let most = self.config.prices.cost(most_in, u64::from(request.max_tokens));
        let reservation = match self.meter.reserve(self.config.budget, most, used.calls > 0).await {
            Ok(reservation) => reservation,
            Err(error) => return unsent(error),
        };
        // The endpoint may have gone down during these waits.
        if let Err(down) = self.health.admit(Instant::now()) {
            reservation.give_back();
            return unsent(down);
        }
        let Some(paying) = callers.pay() else {
            reservation.give_back();
            return unsent(CallError::new(FailureKind::Unavailable, "no caller waits for the answer any longer"));
        };
        let (result, tokens) = self.post_as_accepted(request).await;
        *used += match tokens {
            Some((tokens_in, tokens_out)) => {
                self.endpoint.throttle.correct(estimate, tokens_in.saturating_add(tokens_out), self.config.limits);
                reservation.settle(tokens_in, tokens_out, self.config.prices)
            }
            None => reservation.forfeit(),
        };
        let result = match result {
            Err(failure) => Err(self.heed(failure, &admitted)),
            Ok(answer) => {
                admitted.answered();
                Ok(answer)
            }
        };
        (result, Some(InFlight { paying, _admitted: admitted }))
    }

    fn heed(&self, failure: Failure, admitted: &Admitted) -> FailedAttempt {
        let Failure { error, is_passing, after, .. } = &failure;
        let is_limit = *is_passing && (after.is_some() || error.kind == FailureKind::RateLimited);
        let limited = is_limit.then(|| admitted.limited(self.made(*after)));
        if !is_limit && error.kind.blames_endpoint() && error.kind != FailureKind::Denied && !error.is_answer() {
            // A server that hangs already receives few requests.
            let pauses = *is_passing && self.config.max_retries > 0 && error.kind != FailureKind::Timeout;
            if admitted.failed(pauses) {
                self.health.give_up(error, Instant::now());
            }
        }
        if self.endpoint.throttle.state.lock().is_stuck_anew() {
            let url = &self.endpoint.url;
            tracing::warn!(
                "{url} accepts no call for now ({error}); calls wait longer after each attempt before they fail"
            );
        }
        FailedAttempt { failure, limited }
    }

    /// Sends a request, and again in the form that a refusal asks for. The endpoint generates nothing for a refused
    /// request, so the request keeps its place: calls that wait then start with what this one has learnt.
    async fn post_as_accepted(&self, request: &ChatRequest) -> (Result<Answer, Failure>, Option<(u64, u64)>) {
        let mut sent = self.endpoint.forms.of(request, self.config.forced);
        let mut forms = 0;
        loop {
            let call = tracing::info_span!("call", endpoint = %self.endpoint.url);
            let (result, tokens) = self.post(request, sent).instrument(call).await;
            match (self.learn(&result, request, sent).await, result) {
                (Some(Advice::Resend(next)), _) if forms < FORMS => (sent, forms) = (next, forms + 1),
                (Some(Advice::RefusesAll(what)), Err(Failure { error, .. })) => {
                    let message = format!("{} refuses {what}; its answer: {error}", self.base_url());
                    return (Err(Failure::lasting(FailureKind::EndpointDown, message)), tokens);
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
                if let Some(news) = self.endpoint.forms.keep(&request.model, sent.form, self.config.forced) {
                    let (url, model) = (self.base_url(), &request.model);
                    tracing::warn!("{url} refuses requests for {model} as asap writes them, so asap sends {news}");
                }
                return None;
            }
        };
        let words = failure.refusal.as_ref()?;
        let is_too_long = failure.error.kind == FailureKind::TooLong;
        let mut listed = None;
        if is_too_long && self.config.forced.window.is_none() && refusal::needs_list(words) {
            let served = async || self.served().await.ok().flatten().unwrap_or_default();
            let served = self.endpoint.served.get_or_init(served).await;
            listed = served.iter().find(|served| served.id == request.model).and_then(|served| served.window);
        }
        refusal::advice(words, is_too_long, request, sent, self.config.forced, listed)
    }

    fn base_url(&self) -> &str {
        self.endpoint.url.as_str().trim_end_matches(self.api.path)
    }

    fn made(&self, after: Option<Duration>) -> Duration {
        after.unwrap_or_default().min(self.config.max_retry_after)
    }

    /// Warns once of a long pause of all calls, or of one call that waits for `own`.
    fn announce(&self, Failure { error, after, .. }: &Failure, own: Duration) {
        let pause = self.endpoint.throttle.state.lock().unannounced(own, tokio::time::Instant::now());
        let Some(Pause { time, is_for_all }) = pause else { return };
        let who = if is_for_all { "no call starts" } else { "a call waits, others continue," };
        let (seconds, until) = (time.as_secs_f64().ceil(), (Utc::now() + time).format("%Y-%m-%d %H:%M:%S UTC"));
        let cut = match after.filter(|after| *after > self.config.max_retry_after) {
            Some(after) => {
                let most = self.config.max_retry_after.as_secs_f64();
                format!("; it asked for {} s, asap.anchor.max_retry_after allows {most} s", after.as_secs())
            }
            None => String::new(),
        };
        tracing::warn!("{}: {who} for {seconds} s, until {until} ({error}){cut}", self.endpoint.url);
    }

    async fn post(&self, request: &ChatRequest, sent: Sent) -> (Result<Answer, Failure>, Option<(u64, u64)>) {
        let begun = Instant::now();
        let body = match (self.api.body)(request, sent) {
            Ok(body) => body,
            Err(error) => return (Err(Failure::lasting(FailureKind::Refused, error.to_string())), Some((0, 0))),
        };
        let Endpoint { client, url, .. } = &*self.endpoint;
        let post = client.post(url.clone()).timeout(self.config.timeout).headers((self.api.headers)(self.key.as_ref()));
        let response = match post.header(CONTENT_TYPE, "application/json").body(body).send().await {
            Ok(response) => response,
            Err(error) => {
                let is_first = is_unreachable(&error) && !self.health.is_answered();
                let failure = if is_first { self.unreachable(&error) } else { self.broken(&error) };
                return (Err(failure), error.is_connect().then_some((0, 0)));
            }
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let limit = BYTES_AROUND.saturating_add(BYTES_PER_TOKEN.saturating_mul(request.max_tokens as usize));
        let text = match self.text(response, limit).await {
            Ok(text) => text,
            Err(failure) => return (Err(failure), None),
        };
        let whole = request.is_whole.then(|| begun.elapsed().as_secs_f64());
        let redact = |text| self.without_key(text);
        let result = response::read(self.api, status, &headers, &text, request.bytes(), whole, &redact);
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

    async fn text(&self, mut response: Response, limit: usize) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
            if bytes.len() + chunk.len() > limit {
                let message = format!(
                    "expected a response of at most {limit} bytes, by asap.anchor.max_tokens, found a longer one"
                );
                return Err(Failure::lasting(FailureKind::BadResponse, message));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(self.without_key(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn without_key(&self, text: String) -> String {
        match &self.key {
            Some(key) => key.redact(text),
            None => text,
        }
    }

    /// Returns the failure that ends a session without an answer so far. No retry helps before someone acts.
    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let Failure { error: CallError { message, .. }, .. } = self.broken(error);
        let url = self.base_url();
        let message = format!("{url}: {message}; start the endpoint, or set asap.anchor.base_url to its address");
        Failure::lasting(FailureKind::Unreachable, message)
    }

    fn broken(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() && error.is_connect() {
            let seconds = self.config.timeout.min(CONNECT_TIMEOUT).as_secs_f64();
            return Failure::passing(FailureKind::Timeout, format!("no connection to the endpoint after {seconds} s"));
        }
        if error.is_timeout() {
            let seconds = self.config.timeout.as_secs_f64();
            let message = format!("no complete answer after {seconds} s (asap.anchor.timeout)");
            return Failure::passing(FailureKind::Timeout, message);
        }
        let what = if error.is_connect() { "cannot connect to the endpoint" } else { "the connection broke" };
        Failure::passing(FailureKind::Unavailable, format!("{what}: {}", innermost(error)))
    }
}

/// What a request holds until its outcome is known: its callers may leave, and no other call takes its place.
struct InFlight {
    paying: Paying,
    _admitted: Admitted,
}

struct FailedAttempt {
    failure: Failure,
    limited: Option<Limited>,
}

#[async_trait]
impl Chat for HttpChat {
    async fn chat(&self, request: &ChatRequest, callers: &Arc<Callers>) -> Reply {
        let reply = self.send(request, callers).await;
        let asked =
            if request.is_whole { "the limit of the response in tokens is" } else { "asap.anchor.max_tokens is" };
        let outcome = reply.outcome.map_err(|error| match error.kind {
            FailureKind::TooLong => CallError {
                message: format!(
                    "{}{} (the prompt has {} bytes, {asked} {})",
                    error.message,
                    cut_off_by_window(&error, request.max_tokens),
                    request.bytes(),
                    request.max_tokens
                ),
                ..error
            },
            _ => error,
        });
        Reply { outcome, ..reply }
    }

    async fn served(&self) -> Result<Option<Vec<Served>>, CallError> {
        let Endpoint { client, url, .. } = &*self.endpoint;
        let url = url.as_str().replace(self.api.path, self.api.models_path);
        let get = client.get(&url).timeout(LIST_TIMEOUT).headers((self.api.headers)(self.key.as_ref()));
        let response = match get.send().await {
            Ok(response) if response.status().is_success() => response,
            Err(error) if error.is_connect() => {
                let Failure { error, .. } = self.broken(&error);
                return Err(CallError { message: format!("{url}: {}", error.message), ..error });
            }
            // Some endpoints do not list their models.
            _ => return Ok(None),
        };
        let Ok(text) = self.text(response, BYTES_AROUND).await else { return Ok(None) };
        Ok((self.api.served)(&json::parse(&text).unwrap_or_default()))
    }

    fn standing(&self, calls: u64) -> Standing {
        self.health.standing(calls, Instant::now())
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

/// Whether there was no connection: the name is unknown, or no one accepts one in time. A failed TLS handshake is
/// another failure, which no later time ends.
fn is_unreachable(error: &reqwest::Error) -> bool {
    let mut kinds = causes(error).filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    error.is_connect() && !kinds.any(|kind| matches!(kind, ErrorKind::InvalidData | ErrorKind::UnexpectedEof))
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    iter::successors(Some(error as &(dyn Error + 'static)), |cause| (**cause).source())
}

fn innermost(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(String::new, |cause| cause.to_string())
}

#[cfg(test)]
mod tests;
