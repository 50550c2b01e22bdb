//! Each endpoint is one object in the process, shared by all sessions and queries: its connections, when calls may
//! start, whether it is down, and what it accepts.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::{Client, Url, redirect};
use tokio::sync::OnceCell;

use crate::chat::Served;
use crate::learn::form::Forms;
use crate::send::config::Owner;
use crate::send::health::LastCalls;
use crate::send::throttle::Throttle;
use crate::{LlmError, Result};

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Endpoint {
    pub url: Url,
    pub client: Client,
    pub throttle: Arc<Throttle>,
    pub calls: Arc<Mutex<LastCalls>>,
    pub forms: Forms,
    /// The models that the endpoint lists, once they were asked for.
    pub served: OnceCell<Vec<Served>>,
}

impl Endpoint {
    /// Returns the process's endpoint at this address, and path after it. The key is the normalized URL: scheme and host in lower case, no
    /// default port, no slash at the end.
    pub(crate) fn at(base_url: &Url, path: &str, owner: Owner) -> Result<Arc<Self>> {
        static ENDPOINTS: OnceLock<Mutex<HashMap<String, Arc<Endpoint>>>> = OnceLock::new();
        let address = base_url.as_str().trim_end_matches('/');
        let mut endpoints = ENDPOINTS.get_or_init(Mutex::default).lock();
        let url = format!("{address}{path}");
        if let Some(endpoint) = endpoints.get(&url) {
            return Ok(Arc::clone(endpoint));
        }
        let endpoint = Arc::new(Self::new(address, &url, owner)?);
        endpoints.insert(url, Arc::clone(&endpoint));
        Ok(endpoint)
    }

    fn new(address: &str, url: &str, owner: Owner) -> Result<Self> {
        let setting = owner.setting("base_url");
        let failed = |error: String| LlmError::Setting(format!("{setting} = '{address}': {error}"));
        let url = Url::parse(url).map_err(|error| failed(error.to_string()))?;
        let builder = Client::builder()
            .user_agent(concat!("asap/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            // If a peer sends a response twice, a reused connection would read the copy as the answer to the next call,
            // and keep it under the wrong request. A new connection costs little compared with a call.
            .pool_max_idle_per_host(0);
        let builder = if is_loopback(&url) { builder.no_proxy() } else { builder };
        Ok(Self {
            client: builder.build().map_err(|error| failed(error.to_string()))?,
            throttle: Arc::default(),
            calls: Arc::default(),
            forms: Forms::default(),
            served: OnceCell::new(),
            url,
        })
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
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

    #[test]
    fn an_address_in_other_words_is_the_same_endpoint() {
        let at = |url: &str| Endpoint::at(&Url::parse(url).unwrap(), "/chat", Owner::Anchors).unwrap();
        let first = at("https://one.example.org/v1");
        for other in ["https://one.example.org/v1/", "HTTPS://One.Example.org:443/v1", "https://one.example.org/v1//"] {
            assert!(Arc::ptr_eq(&first, &at(other)), "{other}");
        }
        assert!(!Arc::ptr_eq(&first, &at("https://one.example.org/v2")));
    }
}
