//! What a session's settings say about its language model.

use std::ffi::OsStr;
use std::time::Duration;

use asap_kernels::front_end::{Flag, Setting};
use reqwest::Url;

use crate::learn::form::Forced;
use crate::local_model::OpenLocal;
use crate::pay::meter::{Budget, Prices};
use crate::provider::Provider;
use crate::send::openai;
use crate::send::secret::Secret;
use crate::send::throttle::Limits;
use crate::{LlmError, Result};

/// Whose endpoint it is: the group of the settings that name it. The limits of calls are `asap.anchor.*` for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owner {
    #[default]
    Anchors,
    Scores,
    /// An evaluation, whose endpoint a flag names.
    Evaluations,
}

impl Owner {
    pub(crate) fn setting(self, name: &str) -> String {
        let group = match self {
            Self::Evaluations if name == "base_url" => return Flag("--endpoint").to_string(),
            Self::Anchors | Self::Evaluations => "anchor",
            Self::Scores => "scorer",
        };
        Setting(&format!("asap.{group}.{name}")).to_string()
    }
}

/// The language model of a session, and the limits of its calls. The fields are the settings `asap.anchor.*` and
/// `asap.cache.*`, which messages name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    pub owner: Owner,
    pub provider: Provider,
    pub base_url: Option<String>,
    pub model: Option<String>,
    /// Opens `model` if the provider is `local`.
    pub open_local: OpenLocal,
    /// The name of the environment variable with the key.
    pub api_key_env: Option<String>,
    pub timeout: Duration,
    pub max_retries: u32,
    pub max_retry_after: Duration,
    /// The share of the last calls that may fail, from 0 to 1.
    pub max_error_rate: f64,
    /// What requests contain whatever the endpoint says.
    pub forced: Forced,
    pub limits: Limits,
    pub prices: Prices,
    pub budget: Budget,
    /// The answer cache outside of outputs.
    pub cache_folder: Option<String>,
    /// Most bytes of the caches in memory.
    pub cache_memory: usize,
}

impl Config {
    /// Checks settings that depend on each other. No message shows a text that could be a secret.
    pub(crate) fn check(&self) -> Result<()> {
        match self.provider {
            Provider::Extractive => return Ok(()),
            Provider::Openai => {
                self.base_url(openai::PATH)?;
                self.key()?;
            }
            Provider::Local => {}
        }
        self.model()?;
        if self.budget.max_cost.is_some() && self.prices == Prices::default() {
            return wrong(format!(
                "{} needs prices: set {} and {}",
                Setting("asap.anchor.max_cost"),
                Setting("asap.anchor.price_per_million_input_tokens"),
                Setting("asap.anchor.price_per_million_output_tokens")
            ));
        }
        Ok(())
    }

    pub(crate) fn model(&self) -> Result<&str> {
        self.model.as_deref().ok_or_else(|| {
            let (provider, model) = (Setting("asap.anchor.provider"), Setting("asap.anchor.model"));
            LlmError::Setting(format!("{provider} = '{}' needs a model: set {model}", self.provider))
        })
    }

    pub(crate) fn base_url(&self, path: &str) -> Result<Url> {
        let setting = self.owner.setting("base_url");
        let Some(text) = &self.base_url else {
            let what = match self.owner {
                Owner::Anchors | Owner::Evaluations => {
                    format!("{} = '{}' needs an endpoint", Setting("asap.anchor.provider"), self.provider)
                }
                Owner::Scores => format!("{} = 'served' needs a server", Setting("asap.scorer.backend")),
            };
            return wrong(format!("{what}: set {setting}, such as http://localhost:8000/v1"));
        };
        let Ok(url) = Url::parse(text) else {
            return wrong(format!(
                "{setting} takes an address that begins with http:// or https://, such as http://localhost:8000/v1, found another text"
            ));
        };
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return wrong(format!(
                "{setting} takes an address that begins with http:// or https://, such as http://localhost:8000/v1, found '{}:'",
                url.scheme()
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return wrong(format!(
                "{setting} takes an address without user and password: set {} to the name of the variable that holds \
                 the key",
                self.owner.setting("api_key_env")
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return wrong(format!("{setting} takes an address without query and fragment: {path} is appended"));
        }
        if url.path().trim_end_matches('/').ends_with(path) {
            return wrong(format!("{setting} takes the part before {path}, which is appended"));
        }
        Ok(url)
    }

    pub(crate) fn key(&self) -> Result<Option<Secret>> {
        let Some(name) = &self.api_key_env else { return Ok(None) };
        let setting = self.owner.setting("api_key_env");
        // If the setting holds the key itself by mistake, the key must not appear in a log.
        let looks_like_name = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        let shown = if looks_like_name { format!("'{name}'") } else { "a text (hidden)".to_string() };
        let is_possible = !name.contains(['=', '\0']);
        let Some(value) = is_possible.then(|| std::env::var_os(OsStr::new(name))).flatten() else {
            return wrong(format!(
                "{setting} takes the name of an environment variable that is set, found {shown}, which is not"
            ));
        };
        match value.to_str().and_then(Secret::new) {
            Some(key) => Ok(Some(key)),
            None => wrong(format!(
                "{setting}: the variable {shown} is empty, or contains characters that are invalid in an HTTP header"
            )),
        }
    }
}

fn wrong<T>(message: impl Into<String>) -> Result<T> {
    Err(LlmError::Setting(message.into()))
}

#[cfg(test)]
impl Config {
    /// The configuration of the openai provider, without an address.
    pub(crate) fn openai() -> Self {
        Self {
            provider: Provider::Openai,
            model: Some("test-model".to_string()),
            timeout: Duration::from_secs(30),
            max_retries: 1,
            max_retry_after: Duration::from_secs(60),
            max_error_rate: 0.5,
            limits: Limits { at_once: 64, ..Limits::default() },
            cache_memory: 1 << 20,
            ..Self::default()
        }
    }
}
