//! Requests to the Hub: the token, redirects and retries.

mod refusal;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LOCATION, RANGE};
use reqwest::{Client, Response, StatusCode, Url, redirect};

use crate::environment::{authorization, endpoint, offline_variable};
use crate::{HubError, Result};
use refusal::refusal;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a Hub that never answered is asked: the machine may have no network.
const FIRST_ANSWER: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const REDIRECTS: usize = 8;

static PATIENCE: AtomicU64 = AtomicU64::new(60_000);

/// Sets how long a request is retried if the Hub answers 5xx or 429, or does not answer.
pub fn set_patience(timeout: Duration) {
    PATIENCE.store(timeout.as_millis().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// What a repository holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Model,
    Dataset,
}

/// A repository of the Hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    pub kind: Kind,
    /// `org/name`.
    pub name: String,
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Model => "model",
            Kind::Dataset => "dataset",
        };
        write!(f, "the {kind} {}", self.name)
    }
}

/// A file or folder of a repository at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub repository: Repository,
    /// A commit, branch or tag.
    pub revision: String,
    /// Empty for the root.
    pub path: String,
}

/// The Hub of `HF_ENDPOINT`, asked with the token of the environment.
#[derive(Clone)]
pub struct Hub {
    http: Client,
    pub(crate) endpoint: Url,
    authorization: Option<HeaderValue>,
    /// Whether it ever answered.
    answered: Arc<AtomicBool>,
}

// The HTTP client is not shown: its settings may contain a proxy's password.
impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("endpoint", &self.endpoint.as_str()).finish_non_exhaustive()
    }
}

/// A request, and what it is about.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    pub url: Url,
    pub place: &'a Place,
    /// The value of the header `Range`.
    pub range: Option<String>,
    /// The body of a POST request.
    pub form: Option<String>,
}

/// A response, with what the Hub says of the file before it redirects to a storage.
pub(crate) struct Answer {
    pub response: Response,
    pub etag: Option<String>,
    pub size: Option<u64>,
}

/// A failed attempt, and how long the Hub asks to wait.
#[derive(Debug)]
pub(crate) struct Failure {
    pub error: HubError,
    pub after: Option<Duration>,
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        Self { error, after: None }
    }
}

/// The time that is left for retries, from the first failure on.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    until: Option<Instant>,
    failures: u32,
}

impl Patience {
    /// Waits before the next attempt. Returns the error if it is final, or if the time is over.
    pub(crate) async fn wait(&mut self, failure: Failure, longest: Duration) -> Result<()> {
        let Failure { error: error @ HubError::Unavailable(_), after } = failure else { return Err(failure.error) };
        let allowed = Duration::from_millis(PATIENCE.load(Ordering::Relaxed)).min(longest);
        let until = *self.until.get_or_insert_with(|| Instant::now() + allowed);
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        let pause = after.unwrap_or_default().saturating_add(doubled.mul_f64(rand::random_range(0.5..1.0)));
        self.failures += 1;
        if Instant::now().checked_add(pause).is_none_or(|next| next > until) {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Begins anew, since something was received.
    pub(crate) fn restore(&mut self) {
        *self = Self::default();
    }
}

impl Hub {
    /// Opens the Hub that the environment names: `HF_ENDPOINT`, `HF_TOKEN` and the token of `hf auth login`.
    ///
    /// # Errors
    /// If a variable is wrong, or `HF_HUB_OFFLINE` is set.
    pub fn new() -> Result<Self> {
        if let Some(name) = offline_variable() {
            return Err(HubError::Refused(format!(
                "{name} is set, so nothing is read from the Hugging Face Hub: unset it, or name a local copy"
            )));
        }
        let endpoint = endpoint()?;
        let builder = Client::builder()
            .user_agent(concat!("asap/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT);
        let host = endpoint.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let builder = if is_here { builder.no_proxy() } else { builder };
        let http = builder.build().map_err(|error| HubError::Refused(format!("HTTP cannot be used: {error}")))?;
        Ok(Self { http, endpoint, authorization: authorization()?, answered: Arc::default() })
    }

    /// Its address, for people.
    pub(crate) fn shown(&self) -> &str {
        self.endpoint.as_str().trim_end_matches('/')
    }

    pub(crate) fn has_token(&self) -> bool {
        self.authorization.is_some()
    }

    /// The address of a path of the Hub. A segment may contain slashes, as revisions do.
    pub(crate) fn url<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// The address of a call of the API about a place.
    pub(crate) fn api(&self, place: &Place, call: &str, path: &str) -> Url {
        let kind = match place.repository.kind {
            Kind::Model => "models",
            Kind::Dataset => "datasets",
        };
        let segments = ["api", kind].into_iter().chain(place.repository.name.split('/'));
        let path = path.split('/').filter(|part| !part.is_empty());
        self.url(segments.chain([call, &place.revision]).chain(path))
    }

    /// The page of a repository, for people.
    pub(crate) fn page(&self, repository: &Repository) -> Url {
        let kind = (repository.kind == Kind::Dataset).then_some("datasets");
        self.url(kind.into_iter().chain(repository.name.split('/')))
    }

    /// Sends a request until it is answered, refused, or the time for retries is over.
    pub(crate) async fn send(&self, request: &Request<'_>, patience: &mut Patience) -> Result<Answer> {
        loop {
            match self.try_once(request).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => patience.wait(failure, self.longest()).await?,
            }
        }
    }

    pub(crate) fn longest(&self) -> Duration {
        if self.answered.load(Ordering::Relaxed) { Duration::MAX } else { FIRST_ANSWER }
    }

    /// Sends a request once, and follows redirects. The token goes to the Hub alone, never to a storage.
    async fn try_once(&self, request: &Request<'_>) -> std::result::Result<Answer, Failure> {
        let (mut url, mut etag, mut size) = (request.url.clone(), None, None);
        for _ in 0..REDIRECTS {
            let is_hub = url.origin() == self.endpoint.origin();
            if self.endpoint.scheme() == "https" && url.scheme() != "https" {
                let host = url.host_str().unwrap_or_default();
                return Err(HubError::Refused(format!("the Hub redirects to {host} without encryption")).into());
            }
            let response = self.sent(request, &url, is_hub).await?;
            let headers = response.headers();
            if is_hub {
                let own = text(headers, ETAG.as_str()).filter(|_| response.status().is_success());
                let linked = text(headers, "x-linked-etag").or(own);
                etag = etag.or_else(|| linked.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_string()));
                size = size.or_else(|| text(headers, "x-linked-size")?.parse().ok());
            }
            let target = text(headers, LOCATION.as_str()).filter(|_| response.status().is_redirection());
            if let Some(target) = target.and_then(|target| url.join(target).ok()) {
                url = target;
                continue;
            }
            return match response.status() {
                status if status.is_success() => Ok(Answer { response, etag, size }),
                status if is_hub => Err(refusal(self, request.place, status, headers)),
                status => {
                    let message =
                        format!("the storage of the Hub, {}, answers {status}", url.host_str().unwrap_or("?"));
                    Err(match status {
                        StatusCode::RANGE_NOT_SATISFIABLE => HubError::Refused(message).into(),
                        // The address of a file in a storage expires. Each attempt gets a new one.
                        _ => HubError::Unavailable(message).into(),
                    })
                }
            };
        }
        Err(HubError::Refused(format!("{} redirects more than {REDIRECTS} times", self.shown())).into())
    }

    async fn sent(&self, request: &Request<'_>, url: &Url, is_hub: bool) -> std::result::Result<Response, Failure> {
        let sent = match &request.form {
            Some(form) => {
                let form_type = "application/x-www-form-urlencoded";
                self.http.post(url.clone()).header(CONTENT_TYPE, form_type).body(form.clone())
            }
            None => self.http.get(url.clone()),
        };
        let mut headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
        headers.extend(self.authorization.clone().filter(|_| is_hub).map(|token| (AUTHORIZATION, token)));
        headers.extend(request.range.as_ref().and_then(|range| Some((RANGE, HeaderValue::from_str(range).ok()?))));
        let response = sent.headers(headers).send().await.map_err(|error| broken(url, &error))?;
        self.answered.store(true, Ordering::Relaxed);
        Ok(response)
    }
}

/// A header as text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().filter(|text| !text.is_empty())
}

/// The failure of a connection, without the address, which may have a signature.
pub(crate) fn broken(url: &Url, error: &reqwest::Error) -> HubError {
    let causes = std::iter::successors(Some(error as &dyn Error), |error| (*error).source());
    let innermost = causes.last().map_or(String::new(), ToString::to_string);
    let said = match (error.is_timeout(), error.is_connect()) {
        (true, _) => "no answer in time".to_string(),
        (_, true) => format!("cannot connect: {innermost}"),
        _ => format!("the connection broke: {innermost}"),
    };
    HubError::Unavailable(format!("{} does not answer ({said})", url.origin().ascii_serialization()))
}
