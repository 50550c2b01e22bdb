//! Settings that point to a server, and a session under them.

use std::sync::Arc;

use asap_udfs::Settings;
use asap_udfs::anchor::{Anchorer, Anchorers, Pruned, Row};
use asap_udfs::llm::{self, Llm};
use asap_udfs::settings::{Provider, Seconds};
use datafusion::common::config::{ConfigOptions, ExtensionOptions};

use crate::tests::server::Server;

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

#[derive(Debug, Clone)]
pub(crate) struct Asking(Arc<dyn Anchorer>);

impl Asking {
    pub(crate) fn of(llm: &Llm, settings: &Settings) -> Self {
        let mut config = ConfigOptions::new();
        config.extensions.insert(settings.clone());
        Self(Anchorers::new(llm.clone()).of(&config).unwrap())
    }

    pub(crate) async fn anchor(&self, question: Option<&str>, answer: Option<&str>) -> llm::Result<Row<String>> {
        self.0.anchor(question, answer, None).await
    }

    pub(crate) async fn coarse(&self, cot: Option<&str>, thought: Option<&str>) -> llm::Result<Row<Pruned>> {
        self.0.coarse(cot, thought, None).await
    }

    pub(crate) async fn complete(&self, prompt: &str) -> llm::Result<Row<String>> {
        self.0.complete(prompt, None).await
    }
}

pub(crate) fn anchoring(server: &Server, changes: &[(&str, &str)]) -> (Llm, Asking) {
    let llm = Llm::default();
    let asking = Asking::of(&llm, &settings(server, changes));
    (llm, asking)
}
