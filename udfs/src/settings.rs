//! The settings of asap: one table, read as `SET asap.…` in SQL.

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, config_datafusion_err, config_err};

/// Where direct thoughts and coarse prunings come from (`asap.anchor.provider`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// The rule-based stand-in that needs no language model.
    Extractive,
}

/// What a failed row does (`asap.on_error`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The row gets a status and the query goes on.
    Reject,
    /// The query fails.
    Fail,
}

/// How a setting's value is read, checked and shown.
trait Value: Sized {
    /// What a valid value looks like, for error messages.
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn show(&self) -> Option<String>;
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr, $key:literal;)+) => {
        /// Every setting of asap with its value; `asap.` stands before each key.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings { $($(#[doc = $doc])+ pub $field: $type,)+ }

        impl Default for Settings {
            fn default() -> Self { Self { $($field: $default,)+ } }
        }

        impl Settings {
            /// The keys that can be set, without the prefix `asap.`.
            pub const KEYS: &'static [&'static str] = &[$($key,)+];

            fn set_value(&mut self, key: &str, value: &str) -> Result<()> {
                match key {
                    $($key => {
                        self.$field = <$type as Value>::parse(value).ok_or_else(|| config_datafusion_err!(
                            "asap.{key} takes {}, found '{value}'", <$type as Value>::EXPECTED))?;
                        Ok(())
                    })+
                    _ => unknown_setting(key),
                }
            }
        }

        impl ExtensionOptions for Settings {
            fn as_any(&self) -> &dyn Any { self }
            fn as_any_mut(&mut self) -> &mut dyn Any { self }
            fn cloned(&self) -> Box<dyn ExtensionOptions> { Box::new(self.clone()) }
            fn set(&mut self, key: &str, value: &str) -> Result<()> { self.set_value(key, value) }
            fn entries(&self) -> Vec<ConfigEntry> {
                vec![$(ConfigEntry {
                    key: concat!("asap.", $key).to_string(),
                    value: self.$field.show(),
                    description: concat!($($doc),+).trim(),
                },)+]
            }
        }
    };
}

settings! {
    /// Folder of the scoring model, laid out as on Hugging Face: config.json, tokenizer.json, safetensors.
    scorer_model: String = "data/model".to_string(), "scorer.model";
    /// What stands before a chain's first step: `chat` (the model's own template), or text in which `{question}` is
    /// replaced and `\n`, `\t` are escapes. Unset: `chat` where the model has a template, else `{question}\n<think>\n`.
    scorer_prompt: Option<String> = None, "scorer.prompt";
    /// Who writes direct thoughts and prunes by them: `extractive` (rules, no language model, no network).
    anchor_provider: Provider = Provider::Extractive, "anchor.provider";
    /// The least Gestalt similarity at which a step of the coarse chain matches a step of the original (tau of
    /// Algorithm 1), from 0 to 1.
    match_threshold: Ratio = Ratio(0.6), "match.threshold";
    /// The most tokens that a pruned chain may have (L_max of Algorithm 2).
    refine_max_tokens: i64 = 4096, "refine.max_tokens";
    /// What a row that fails does: `reject` (it gets a status, the query goes on) or `fail` (the query fails).
    on_error: OnError = OnError::Reject, "on_error";
}

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "asap";
}

impl Settings {
    /// The settings of a session; an error if the session was built without them.
    pub fn of(config: &ConfigOptions) -> Result<&Settings> {
        config.extensions.get::<Settings>().ok_or_else(|| {
            config_datafusion_err!(
                "the session has no asap settings: add asap_udfs::Settings to its options extensions"
            )
        })
    }
}

fn unknown_setting(key: &str) -> Result<()> {
    let nearest = Settings::KEYS.iter().max_by(|a, b| strsim::jaro(key, a).total_cmp(&strsim::jaro(key, b)));
    match nearest {
        Some(nearest) => config_err!("there is no setting asap.{key}; did you mean asap.{nearest}?"),
        None => config_err!("there is no setting asap.{key}"),
    }
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Ratio(pub f64);

impl Value for Ratio {
    const EXPECTED: &'static str = "a number from 0 to 1";
    fn parse(text: &str) -> Option<Self> {
        f64::from_str(text.trim()).ok().filter(|x| (0.0..=1.0).contains(x)).map(Ratio)
    }
    fn show(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl Value for i64 {
    const EXPECTED: &'static str = "a whole number of at least 0";
    fn parse(text: &str) -> Option<Self> {
        i64::from_str(text.trim()).ok().filter(|x| *x >= 0)
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for String {
    const EXPECTED: &'static str = "text that is not empty";
    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_string())
    }
    fn show(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl Value for Option<String> {
    const EXPECTED: &'static str = "text";
    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| text.to_string()))
    }
    fn show(&self) -> Option<String> {
        self.clone()
    }
}

macro_rules! choice {
    ($type:ident, $expected:literal, $($name:literal => $variant:ident),+) => {
        impl Value for $type {
            const EXPECTED: &'static str = $expected;
            fn parse(text: &str) -> Option<Self> {
                match text { $($name => Some($type::$variant),)+ _ => None }
            }
            fn show(&self) -> Option<String> { Some(self.to_string()) }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($type::$variant => $name,)+ })
            }
        }
    };
}

choice!(Provider, "'extractive'", "extractive" => Extractive);
choice!(OnError, "'reject' or 'fail'", "reject" => Reject, "fail" => Fail);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_listed_once_with_a_description() {
        let entries = Settings::default().entries();
        assert_eq!(entries.len(), Settings::KEYS.len());
        for entry in entries {
            assert!(entry.description.len() > 20, "{} has no description", entry.key);
        }
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let error = Settings::default().set("refine.max_token", "3").unwrap_err().to_string();
        assert!(error.contains("did you mean asap.refine.max_tokens?"), "{error}");
    }

    #[test]
    fn a_value_of_the_wrong_type_says_what_is_expected() {
        let mut settings = Settings::default();
        for (key, value) in [("match.threshold", "1.5"), ("refine.max_tokens", "many"), ("on_error", "ignore")] {
            let error = settings.set(key, value).unwrap_err().to_string();
            assert!(error.contains(&format!("asap.{key} takes")) && error.contains(value), "{error}");
        }
        settings.set("match.threshold", "0.7").unwrap();
        assert_eq!(settings.match_threshold, Ratio(0.7));
    }
}
