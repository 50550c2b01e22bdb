//! The variables that Hugging Face's own tools read. An empty variable counts as not set.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use asap_kernels::front_end::Setting;
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::{HubError, Result};

const ENDPOINT: &str = "https://huggingface.co";

static OFFLINE: AtomicBool = AtomicBool::new(false);

/// Forbids downloads of models from now on, or allows them again.
pub fn set_offline(is_offline: bool) {
    OFFLINE.store(is_offline, Ordering::Relaxed);
}

/// Returns what forbids requests to the Hub.
pub(crate) fn offline_variable() -> Option<&'static str> {
    let name = "HF_HUB_OFFLINE";
    let value = std::env::var(name).unwrap_or_default().to_ascii_uppercase();
    ["1", "ON", "YES", "TRUE"].contains(&value.as_str()).then_some(name)
}

/// Returns what forbids downloads, and how to allow them.
pub(crate) fn forbidden() -> Option<String> {
    if let Some(name) = offline_variable() {
        return Some(format!("{name} is set: unset it"));
    }
    let setting = Setting("asap.hub");
    OFFLINE.load(Ordering::Relaxed).then(|| format!("{setting} is 'offline': set it to 'online'"))
}

fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value.trim().to_string()).filter(|value| !value.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(_) => refused(format!("the environment variable {name} is not UTF-8: set it again or unset it")),
    }
}

fn refused<T>(message: String) -> Result<T> {
    Err(HubError::Refused(message))
}

/// Returns the address of the Hub.
pub(crate) fn endpoint() -> Result<Url> {
    let given = variable("HF_ENDPOINT")?.unwrap_or_else(|| ENDPOINT.to_string());
    let is_plain = |url: &Url| {
        let has_secret = !url.username().is_empty() || url.password().is_some() || url.query().is_some();
        matches!(url.scheme(), "http" | "https") && url.host().is_some() && !has_secret
    };
    match Url::parse(given.trim_end_matches('/')) {
        Ok(url) if is_plain(&url) => Ok(url),
        // What was found may contain a password.
        _ => refused(format!("HF_ENDPOINT must be an address such as {ENDPOINT}, without user, password and query")),
    }
}

/// Returns the header that authorizes requests to the Hub, marked so that nothing shows it.
pub(crate) fn authorization() -> Result<Option<HeaderValue>> {
    let given = variable("HF_TOKEN")?.map_or_else(|| variable("HUGGING_FACE_HUB_TOKEN"), |token| Ok(Some(token)))?;
    let (token, from) = match (given, token_file()?) {
        (Some(token), _) => (token, "HF_TOKEN".to_string()),
        (None, None) => return Ok(None),
        (None, Some(path)) => match std::fs::read_to_string(&path) {
            Ok(token) => (token.replace(['\r', '\n'], "").trim().to_string(), path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return refused(format!("cannot read the token of the Hub in {}: {error}", path.display())),
        },
    };
    if token.is_empty() {
        return Ok(None);
    }
    match HeaderValue::from_str(&format!("Bearer {token}")) {
        Ok(mut header) if token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            header.set_sensitive(true);
            Ok(Some(header))
        }
        _ => refused(format!("the token in {from} has characters that no token has: set it again")),
    }
}

fn token_file() -> Result<Option<PathBuf>> {
    match variable("HF_TOKEN_PATH")? {
        Some(path) => Ok(Some(path.into())),
        None => Ok(home(|name| std::env::var_os(name)).map(|home| home.join("token"))),
    }
}

/// The folder of Hugging Face's tools. None without a home folder.
pub(crate) fn home(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let given = variable("HF_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    given.or_else(|| Some(Xdg::new().ok()?.cache_dir().join("huggingface")))
}
