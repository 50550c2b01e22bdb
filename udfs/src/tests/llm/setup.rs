//! Settings that point to a server, and a session under them.

use std::sync::Arc;

use asap_llm::Llm;
use asap_llm::provider::Provider;
use asap_udfs::Settings;
use asap_udfs::anchor::{Anchorer, Anchorers};
use asap_udfs::settings::Seconds;
use datafusion::common::Result;
use datafusion::common::config::{ConfigOptions, ExtensionOptions};

use asap_test_support::Server;

pub(crate) fn settings(server: &Server, changes: &[(&str, &str)]) -> Settings {
    let mut settings = Settings {
        anchor_provider: Provider::Openai,
        anchor_base_url: Some(server.base_url()),
        anchor_model: Some("test-model".to_string()),
        anchor_timeout: Seconds(30.0),
        anchor_max_retries: 1,
        anchor_max_tokens: asap_udfs::settings::Positive(256),
        ..Settings::default()
    };
    for (key, value) in changes {
        settings.set(&format!("anchor.{key}"), value).unwrap();
    }
    settings
}

pub(crate) fn asking(llm: &Llm, settings: &Settings) -> Arc<dyn Anchorer> {
    Anchorers::new(llm.clone()).of(&config(settings)).unwrap()
}

pub(crate) fn try_asking(settings: &Settings) -> Result<Arc<dyn Anchorer>> {
    Anchorers::new(Llm::default()).of(&config(settings))
}

fn config(settings: &Settings) -> ConfigOptions {
    let mut config = ConfigOptions::new();
    config.extensions.insert(settings.clone());
    config
}

pub(crate) fn anchoring(server: &Server, changes: &[(&str, &str)]) -> (Llm, Arc<dyn Anchorer>) {
    let llm = Llm::default();
    let anchorer = asking(&llm, &settings(server, changes));
    (llm, anchorer)
}
