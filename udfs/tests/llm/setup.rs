//! Settings that point to a server, and a session under them.

use std::sync::Arc;

use asap_udfs::Settings;
use asap_udfs::llm::{Anchoring, Llm};
use asap_udfs::settings::{Provider, Seconds};
use datafusion::common::config::ExtensionOptions;

use crate::server::Server;

/// Settings for a server, with one retry and a time that a busy machine keeps, changed by pairs of key and value.
pub fn settings(server: &Server, changes: &[(&str, &str)]) -> Settings {
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

/// Stage 1 of a new session.
pub fn anchoring(server: &Server, changes: &[(&str, &str)]) -> (Llm, Arc<Anchoring>) {
    let llm = Llm::default();
    let anchoring = llm.anchoring(&settings(server, changes)).unwrap();
    (llm, anchoring)
}
