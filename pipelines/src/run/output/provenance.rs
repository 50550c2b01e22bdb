//! What made a table, in readable names: the pipeline, its input, the anchorer and the scoring model. In contrast, the
//! identity compares by content.

use asap_kernels::front_end::Setting;
use asap_lm::SMALL;
use asap_udfs::Settings;
use asap_udfs::plan::UsedModels;
use serde::{Deserialize, Serialize};

use crate::location::redact;
use crate::run::request::Request;

/// Begins the line of a dataset card that says who wrote the dataset.
pub(crate) const WRITTEN_BY: &str = "Written by asap ";

/// The names that the run used when it created or rebuilt a table. Later runs may use other names for the same things.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub pipeline: String,
    pub input: Vec<String>,
    /// The anchorer: wrote direct thoughts and pruned by them, or answered prompts. None if none was called.
    pub anchored_by: Option<String>,
    /// The scoring model. None if none was used.
    pub scored_by: Option<String>,
    pub tokens_of: String,
    /// None if only the ratio limits a chain.
    pub max_tokens: Option<i64>,
    /// The share of a chain's tokens, if it is set.
    #[serde(default)]
    pub ratio: Option<String>,
    /// Defaults that were used in place of a model fit for pruning training data.
    #[serde(rename = "stand_ins")]
    pub default_models: Vec<String>,
}

impl Provenance {
    pub(crate) fn of(request: &Request, asked: UsedModels) -> Self {
        let settings = &request.settings;
        let (scorer, model) = (settings.scorer_model.clone(), settings.anchor_model.as_deref().unwrap_or_default());
        let mut default_models = Vec::new();
        if asked.anchorer && !settings.anchor_provider.is_language_model() {
            let is_ignored = settings.anchor_model.is_some() || settings.anchor_base_url.is_some();
            let ignored = if is_ignored { ", so asap.anchor.model and base_url have no effect" } else { "" };
            default_models.push(format!("rules (asap.anchor.provider{ignored})"));
        }
        if asked.scorer && scorer == SMALL {
            default_models.push("asap's small model (asap.scorer.model)".to_string());
        } else if scorer == SMALL {
            default_models.push("tokens of asap's small model (asap.scorer.model)".to_string());
        }
        Self {
            pipeline: request.name.clone(),
            input: request.from.iter().map(|from| redact(from)).collect(),
            anchored_by: asked.anchorer.then(|| settings.anchor_provider.describe(model)),
            scored_by: asked.scorer.then(|| scorer.clone()),
            tokens_of: scorer,
            max_tokens: settings
                .refine_max_tokens
                .map(|tokens| tokens.0.into())
                .or_else(|| settings.refine_ratio.is_none().then_some(Settings::MAX_TOKENS)),
            ratio: settings.refine_ratio.map(|ratio| ratio.0.to_string()),
            default_models,
        }
    }

    /// Whether the model that is used without another choice counted the tokens. It answers almost no question.
    pub fn is_by_small(&self) -> bool {
        self.tokens_of == SMALL
    }

    /// A warning if default models made an output.
    pub fn warning(&self) -> Option<String> {
        let set = match self.default_models.len() {
            0 => return None,
            1 => "it",
            _ => "both",
        };
        // The output holds them as the command spells them.
        let keys = ["asap.anchor.provider", "asap.anchor.model", "asap.scorer.model"];
        let default_models = keys
            .iter()
            .fold(self.default_models.join(" and "), |text, key| text.replace(key, &Setting(key).to_string()));
        Some(format!("made with default models: {default_models}. Set {set} before you train on the output"))
    }

    /// Pairs of a label and a value.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let lines = [
            ("pipeline", Some(self.pipeline.clone())),
            ("input", Some(self.input.join(", "))),
            ("anchored by", self.anchored_by.clone()),
            ("scored by", self.scored_by.clone()),
            ("tokens of", Some(self.tokens_of.clone())),
            ("max_tokens", self.max_tokens.map(|tokens| format!("{tokens} (asap.refine.max_tokens)"))),
            ("ratio", self.ratio.as_ref().map(|ratio| format!("{ratio} (asap.refine.ratio)"))),
        ];
        lines.into_iter().filter_map(|(what, who)| Some((what, who?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use asap_llm::provider::Provider;
    use asap_udfs::Settings;

    use crate::run::output::provenance::*;

    #[test]
    fn only_who_is_asked_is_named_and_only_default_models_are_warned_of() {
        let settings = Settings::default();
        let request = Request::new("truncate", "", &["s3://key:word@lake/traces"], "out", settings.clone());
        let none = Provenance::of(&request, UsedModels::default());
        assert_eq!((&none.anchored_by, &none.scored_by), (&None, &None));
        // The small model counts the tokens of the budget.
        let tokens = none.warning().unwrap();
        assert!(tokens.contains("asap.scorer.model") && !tokens.contains("asap.anchor.provider"), "{tokens}");
        assert!(!none.input.concat().contains("word"), "{none:?}");

        let both = UsedModels { anchorer: true, scorer: true, ..UsedModels::default() };
        let rules = Provenance::of(&request, both).warning().unwrap();
        assert!(rules.contains("asap.anchor.provider") && rules.contains("asap.scorer.model"), "{rules}");
        let named = Settings {
            anchor_provider: Provider::Openai,
            anchor_model: Some("Qwen/Qwen3-8B".to_string()),
            scorer_model: "models/7b".to_string(),
            ..settings
        };
        let named = Provenance::of(&Request::new("asap", "", &["traces"], "out", named), both);
        assert_eq!(named.warning(), None);
        assert_eq!(named.anchored_by.as_deref(), Some("Qwen/Qwen3-8B (an endpoint)"));
        assert_eq!(serde_json::from_str::<Provenance>(&serde_json::to_string(&named).unwrap()).unwrap(), named);
    }
}
