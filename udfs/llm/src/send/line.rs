//! The line to one endpoint over HTTP: requests within limits, budget, retries and health, whatever they ask.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, iter};

use asap_kernels::front_end::Setting;
use chrono::Utc;
use parking_lot::Mutex;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Response, Url};
use tracing::Instrument;

use crate::chat::{CallError, FailureKind, Received, Reply, Served};
use crate::flights::{Callers, Hold};
use crate::pay::meter::Meter;
use crate::send::config::Config;
use crate::send::endpoint::{CONNECT_TIMEOUT, Endpoint};
use crate::send::health::{Health, OwnCalls};
use crate::send::response::Failure;
use crate::send::secret::Secret;
use crate::send::throttle::{Admitted, Limited, Pause};
use crate::send::{body, json, openai, retry};
use crate::usage::Usage;

/// A response is read up to this many bytes besides those of its tokens.
pub(crate) const BYTES_AROUND: usize = 64 << 10;
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Line {
    pub endpoint: Arc<Endpoint>,
    pub config: Config,
    pub health: Health,
    path: &'static str,
    headers: HeaderMap,
    key: Option<Secret>,
    meter: Arc<Meter>,
}

// The HTTP client is not shown: its settings may contain a proxy's password.
impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("url", &self.endpoint.url.as_str()).finish_non_exhaustive()
    }
}

/// What the limits count of a request, before it is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub tokens: u64,
    /// The most that it can cost.
    pub cost: f64,
}

/// What a request gave, and the tokens that were paid, if they are known.
pub(crate) type Posted<T> = (Result<T, Failure>, Option<(u64, u64)>);

impl Line {
    pub(crate) fn new(
        path: &'static str,
        config: &Config,
        base_url: &Url,
        meter: Arc<Meter>,
        own: Arc<Mutex<OwnCalls>>,
    ) -> crate::Result<Self> {
        let (endpoint, key) = (Endpoint::at(base_url, path, config.owner)?, config.key()?);
        let address = endpoint.url.as_str().trim_end_matches(path);
        let account = key.as_ref().map_or(0, Secret::account);
        Ok(Self {
            health: Health::new(address, Arc::clone(&endpoint.calls), own, account, config.max_error_rate),
            headers: openai::headers(key.as_ref()),
            endpoint,
            path,
            key,
            config: config.clone(),
            meter,
        })
    }

    /// Sends a request until it is answered, fails for good, or has no retries left. A request that the endpoint limits
    /// is sent again for as long as the endpoint answers others.
    /// Without `callers`, dropping the future is what ends it.
    pub(crate) async fn send<T, F: Future<Output = Posted<T>> + Send>(
        &self,
        estimate: Estimate,
        callers: Option<&Arc<Callers>>,
        post: impl Fn() -> F + Send + Sync,
    ) -> Reply<T> {
        let denials = self.health.denials();
        let (mut used, mut retries, mut alone, mut answered) = (Usage::default(), 0, 0, 0);
        loop {
            if let Err(down) = self.health.admit(Instant::now()) {
                return self.end(denials, Err(down), used, None);
            }
            let (tried, in_flight) = self.try_once(estimate, callers, &post, &mut used).await;
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
    fn end<T>(
        &self,
        denials: u64,
        outcome: Result<T, CallError>,
        used: Usage,
        in_flight: Option<InFlight>,
    ) -> Reply<T> {
        let outcome = self.health.report(outcome, denials, Instant::now());
        Reply { outcome, used, paying: in_flight.and_then(|in_flight| in_flight.paying) }
    }

    /// Sends one request. Returns what it holds if it was sent, and adds its usage to `used`.
    async fn try_once<T, F: Future<Output = Posted<T>> + Send>(
        &self,
        Estimate { tokens: estimate, cost: most }: Estimate,
        callers: Option<&Arc<Callers>>,
        post: &(impl Fn() -> F + Send + Sync),
        used: &mut Usage,
    ) -> (Result<T, FailedAttempt>, Option<InFlight>) {
        let unsent = |error| (Err(FailedAttempt { failure: Failure::of(error), limited: None }), None);
        let admitted = self.endpoint.throttle.admit(self.config.limits, estimate).await;
        let reservation = match self.meter.reserve(self.config.budget, most, used.calls > 0).await {
            Ok(reservation) => reservation,
            Err(error) => return unsent(error),
        };
        // The endpoint may have gone down during these waits.
        if let Err(down) = self.health.admit(Instant::now()) {
            reservation.give_back();
            return unsent(down);
        }
        let paying = match callers.map(|callers| callers.pay()) {
            Some(None) => {
                reservation.give_back();
                return unsent(CallError::new(FailureKind::Unavailable, "no caller waits for the answer any longer"));
            }
            paying => paying.flatten(),
        };
        let (result, tokens) = post().await;
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

    /// Sends a body of JSON once, and returns the response, of which at most `limit` bytes are read. On failure it
    /// returns the tokens that were paid, if they are known.
    pub(crate) async fn post(&self, body: Vec<u8>, limit: usize) -> Result<Received, (Failure, Option<(u64, u64)>)> {
        let Endpoint { client, url, .. } = &*self.endpoint;
        let call = tracing::info_span!("call", endpoint = %url);
        let post = client.post(url.clone()).timeout(self.config.timeout).headers(self.headers.clone());
        let post = post.header(CONTENT_TYPE, "application/json").body(body);
        async {
            let response = post.send().await.map_err(|error| {
                let is_first = error.is_connect() && !self.health.is_answered();
                let failure = if is_first { self.unreachable(&error) } else { self.broken(&error) };
                (failure, error.is_connect().then_some((0, 0)))
            })?;
            let (status, headers) = (response.status(), response.headers().clone());
            let text = self.text(response, limit).await.map_err(|failure| (failure, None))?;
            Ok(Received { status, headers, text })
        }
        .instrument(call)
        .await
    }

    /// Returns the models that the endpoint lists; None if it lists none. It costs nothing.
    pub(crate) async fn served(&self) -> Result<Option<Vec<Served>>, CallError> {
        let url = [self.base_url(), openai::MODELS_PATH].concat();
        let get = self.endpoint.client.get(&url).timeout(LIST_TIMEOUT).headers(self.headers.clone());
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
        Ok(openai::served(&json::parse(&text).unwrap_or_default()))
    }

    pub(crate) fn base_url(&self) -> &str {
        self.endpoint.url.as_str().trim_end_matches(self.path)
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
                let setting = Setting("asap.anchor.max_retry_after");
                format!("; it asked for {} s, {setting} allows {most} s", after.as_secs())
            }
            None => String::new(),
        };
        tracing::warn!("{}: {who} for {seconds} s, until {until} ({error}){cut}", self.endpoint.url);
    }

    async fn text(&self, mut response: Response, limit: usize) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
            bytes.extend_from_slice(&chunk);
            let most = body::most(&bytes, limit);
            if bytes.len() > most {
                return Err(body::too_long(most));
            }
        }
        let text =
            body::text(bytes, response.headers(), limit).or_else(|failure| match response.status().is_success() {
                true => Err(failure),
                // The status says what is wrong, although its words cannot be read.
                false => Ok(format!("({})", failure.error.message)),
            })?;
        Ok(self.without_key(text))
    }

    pub(crate) fn without_key(&self, text: String) -> String {
        match &self.key {
            Some(key) => key.redact(text),
            None => text,
        }
    }

    /// Returns the failure that ends a session without an answer so far. No retry helps before someone acts.
    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let Failure { error: CallError { message, .. }, .. } = self.broken(error);
        let url = self.base_url();
        let setting = self.config.owner.setting("base_url");
        let (kind, advice) = match is_of_tls(error) {
            true => (FailureKind::EndpointDown, format!("check https in {setting} and its certificate")),
            false => (FailureKind::Unreachable, format!("start the endpoint, or set {setting} to its address")),
        };
        Failure::lasting(kind, format!("{url}: {message}; {advice}"))
    }

    fn broken(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() && error.is_connect() {
            let seconds = self.config.timeout.min(CONNECT_TIMEOUT).as_secs_f64();
            return Failure::passing(FailureKind::Timeout, format!("no connection to the endpoint after {seconds} s"));
        }
        if error.is_timeout() {
            let seconds = self.config.timeout.as_secs_f64();
            let message = format!("no complete answer after {seconds} s ({})", Setting("asap.anchor.timeout"));
            return Failure::passing(FailureKind::Timeout, message);
        }
        let what = if error.is_connect() { "cannot connect to the endpoint" } else { "the connection broke" };
        Failure::passing(FailureKind::Unavailable, format!("{what}: {}", innermost(error)))
    }
}

/// What a request holds until its outcome is known: its callers may leave, and no other call takes its place.
struct InFlight {
    paying: Option<Hold>,
    _admitted: Admitted,
}

struct FailedAttempt {
    failure: Failure,
    limited: Option<Limited>,
}

/// Whether a TLS handshake failed, which no later time ends.
fn is_of_tls(error: &reqwest::Error) -> bool {
    let mut kinds = causes(error).filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    kinds.any(|kind| matches!(kind, ErrorKind::InvalidData | ErrorKind::UnexpectedEof))
}

/// Returns an error and its causes. An error of the system does not name the error in it as its source.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    iter::successors(Some(error as &(dyn Error + 'static)), |cause| match (**cause).downcast_ref::<io::Error>() {
        Some(outer) => outer.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => (**cause).source(),
    })
}

fn innermost(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(String::new, |cause| cause.to_string())
}
