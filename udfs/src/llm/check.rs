//! Checks settings of the anchor that depend on each other when a query is planned.

use std::ffi::OsStr;

use datafusion::common::{Result, config_datafusion_err, config_err};
use reqwest::Url;

use super::api::Api;
use super::provider::Kind;
use super::secret::Secret;
use crate::settings::Settings;

/// Checks the settings. No message shows a text that could be a secret.
pub(super) fn check(settings: &Settings) -> Result<()> {
    match settings.anchor_provider.kind() {
        Kind::Rules => return Ok(()),
        Kind::Endpoint(api) => {
            base_url(settings, api)?;
            key(settings)?;
        }
        Kind::Folder => {}
    }
    model(settings)?;
    let free = settings.anchor_price_per_million_input_tokens.0 == 0.0
        && settings.anchor_price_per_million_output_tokens.0 == 0.0;
    if settings.anchor_max_cost.is_some() && free {
        return config_err!(
            "asap.anchor.max_cost needs prices: set asap.anchor.price_per_million_input_tokens and \
             asap.anchor.price_per_million_output_tokens"
        );
    }
    Ok(())
}

pub(super) fn model(settings: &Settings) -> Result<&str> {
    let provider = settings.anchor_provider;
    settings.anchor_model.as_deref().ok_or_else(|| {
        config_datafusion_err!("asap.anchor.provider = '{provider}' needs a model: set asap.anchor.model")
    })
}

pub(super) fn base_url(settings: &Settings, api: &Api) -> Result<Url> {
    let path = api.path;
    let Some(text) = &settings.anchor_base_url else {
        return config_err!(
            "asap.anchor.provider = '{}' needs an endpoint: set asap.anchor.base_url, such as http://localhost:8000/v1",
            settings.anchor_provider
        );
    };
    let Ok(url) = Url::parse(text) else {
        return config_err!(
            "asap.anchor.base_url takes an address such as http://localhost:8000/v1, found an invalid one"
        );
    };
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return config_err!("asap.anchor.base_url takes an http or https address, found '{}:'", url.scheme());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return config_err!(
            "asap.anchor.base_url takes an address without user and password: set asap.anchor.api_key_env to the name \
             of the variable that holds the key"
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return config_err!("asap.anchor.base_url takes an address without query and fragment: {path} is appended");
    }
    if url.path().trim_end_matches('/').ends_with(path) {
        return config_err!("asap.anchor.base_url takes the part before {path}, which is appended");
    }
    Ok(url)
}

pub(super) fn key(settings: &Settings) -> Result<Option<Secret>> {
    let Some(name) = &settings.anchor_api_key_env else { return Ok(None) };
    // If the setting holds the key itself by mistake, the key must not appear in a log.
    let looks_like_name = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let shown = if looks_like_name { format!("'{name}'") } else { "a text (hidden)".to_string() };
    let is_possible = !name.contains(['=', '\0']);
    let Some(value) = is_possible.then(|| std::env::var_os(OsStr::new(name))).flatten() else {
        return config_err!(
            "asap.anchor.api_key_env takes the name of an environment variable that is set, found {shown}, which is not"
        );
    };
    match value.to_str().and_then(Secret::new) {
        Some(key) => Ok(Some(key)),
        None => {
            config_err!(
                "asap.anchor.api_key_env: the variable {shown} is empty, or contains characters that are invalid in an HTTP header"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::provider::Provider;
    use crate::settings::Money;

    fn openai() -> Settings {
        Settings {
            anchor_provider: Provider::Openai,
            anchor_base_url: Some("http://localhost:8000/v1/".to_string()),
            anchor_model: Some("m".to_string()),
            ..Settings::default()
        }
    }

    fn refused(change: impl FnOnce(&mut Settings)) -> String {
        let mut settings = openai();
        change(&mut settings);
        check(&settings).unwrap_err().to_string()
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(check(&Settings::default()).is_ok());
        assert!(check(&openai()).is_ok());
        assert!(refused(|settings| settings.anchor_base_url = None).contains("set asap.anchor.base_url"));
        assert!(refused(|settings| settings.anchor_model = None).contains("set asap.anchor.model"));
        let local = |settings: &mut Settings| {
            *settings = Settings { anchor_provider: Provider::Local, ..Settings::default() };
        };
        assert!(refused(local).contains("asap.anchor.provider = 'local' needs a model"));
        assert!(refused(|settings| settings.anchor_max_cost = Some(Money(1.0))).contains("needs prices"));
    }

    #[test]
    fn a_wrong_address_is_refused_without_its_secrets() {
        for url in [
            "localhost:8000",
            "ftp://localhost",
            "no address hunter2",
            "http://user:hunter2@localhost/v1",
            "http://hunter2@localhost/v1",
            "http://localhost/v1?key=hunter2",
            "http://localhost/v1#hunter2",
            "http://localhost/v1/chat/completions",
        ] {
            let error = refused(|settings| settings.anchor_base_url = Some(url.to_string()));
            assert!(error.contains("asap.anchor.base_url takes") && !error.contains("hunter2"), "{url}: {error}");
        }
    }

    #[test]
    fn the_key_is_named_and_not_shown() {
        let error = refused(|settings| settings.anchor_api_key_env = Some("NO_SUCH_VARIABLE".to_string()));
        assert!(error.contains("'NO_SUCH_VARIABLE', which is not"), "{error}");
        for key in ["sk-hunter2", "hunter2", "a=hunter2"] {
            let error = refused(|settings| settings.anchor_api_key_env = Some(key.to_string()));
            assert!(!error.contains("hunter2") && error.contains("api_key_env takes the name"), "{error}");
        }
        // A variable that test runners always set.
        let named = Settings { anchor_api_key_env: Some("CARGO_MANIFEST_DIR".to_string()), ..openai() };
        assert!(key(&named).unwrap().is_some());
    }
}
