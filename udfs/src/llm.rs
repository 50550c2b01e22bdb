//! The settings of a session as the crate `asap-llm` takes them, and its errors as those of a query.

use asap_llm::config::Owner;
use asap_llm::form::Forced;
use asap_llm::meter::{Budget, Prices};
use asap_llm::throttle::Limits;
use asap_llm::{Config, LlmError};
use datafusion::common::DataFusionError;

use crate::local_model;
use crate::settings::Settings;

impl Settings {
    /// Returns the language model of these settings, and the limits of its calls.
    pub fn language_model(&self) -> Config {
        let [temperature, top_p] =
            [self.anchor_send_temperature, self.anchor_send_top_p].map(|sends| sends.map(|sends| !sends));
        Config {
            owner: Owner::Anchors,
            provider: self.anchor_provider,
            base_url: self.anchor_base_url.clone(),
            model: self.anchor_model.clone(),
            open_local: local_model::OPEN,
            api_key_env: self.anchor_api_key_env.clone(),
            timeout: self.anchor_timeout.duration(),
            max_retries: self.anchor_max_retries.try_into().unwrap_or(u32::MAX),
            max_retry_after: self.anchor_max_retry_after.duration(),
            max_error_rate: self.anchor_max_error_rate.0,
            forced: Forced {
                changes: [self.anchor_send_max_completion_tokens, temperature, top_p],
                window: self.anchor_window.map(|tokens| tokens.0.into()),
            },
            limits: Limits {
                at_once: self.anchor_max_concurrent_requests.0,
                requests_per_minute: self.anchor_max_requests_per_minute.map(|number| number.0),
                tokens_per_minute: self.anchor_max_tokens_per_minute.map(|number| number.0),
            },
            prices: Prices {
                per_token_in: self.anchor_price_per_million_input_tokens.0 / 1e6,
                per_token_out: self.anchor_price_per_million_output_tokens.0 / 1e6,
            },
            budget: Budget {
                max_calls: self.anchor_max_calls.map(i64::unsigned_abs),
                max_cost: self.anchor_max_cost.map(|cost| cost.0),
            },
            cache_folder: self.cache_dir.clone(),
            cache_memory: self.cache_memory.0,
        }
    }
}

/// Returns the error of a query that a language model ends.
pub fn failed(error: impl Into<LlmError>) -> DataFusionError {
    match error.into() {
        LlmError::Setting(message) => DataFusionError::Configuration(message),
        error => DataFusionError::External(Box::new(error)),
    }
}
