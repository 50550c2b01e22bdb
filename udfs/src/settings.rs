//! The settings of asap: one table, read as `SET asap.…` in SQL.

use std::any::Any;
use std::fmt;

use crate::typo;
use asap_lm::Dtype;
use asap_lm::compressor::Options;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, config_datafusion_err, config_err};

mod values;

use values::Value;
pub use values::{Bytes, Money, Positive, Ratio, Seconds, Share, Texts};

/// Where direct thoughts and coarse prunings come from (`asap.anchor.provider`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// The rule-based stand-in that needs no language model.
    Extractive,
    /// An endpoint that speaks OpenAI's chat completions over HTTP.
    Openai,
    /// A model in a local folder.
    Local,
}

impl Provider {
    /// Whether a language model answers, and not rules.
    pub fn is_language_model(self) -> bool {
        self != Self::Extractive
    }
}

/// What the scoring model is computed on (`asap.scorer.device`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScorerDevice {
    /// The processor's cores.
    Cpu,
    /// The first NVIDIA GPU that is visible.
    Cuda,
}

/// What a failed row does (`asap.on_error`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The row gets a status and the query goes on.
    Reject,
    /// The query fails.
    Fail,
}

/// What a setting changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// What a row becomes.
    Results,
    /// What a row becomes, by the content of the files that it names and not by their place. Which files those are stands in
    /// the identity of a run's pipeline.
    Files,
    /// How calls are made, kept and paid, and whether a failure is a row's or the query's; not what a result is.
    Calls,
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr, $key:literal, $effect:ident;)+) => {
        /// Every setting of asap with its value; `asap.` stands before each key.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings { $($(#[doc = $doc])+ pub $field: $type,)+ }

        impl Default for Settings {
            fn default() -> Self { Self { $($field: $default,)+ } }
        }

        impl Settings {
            /// The keys that can be set, without the prefix `asap.`.
            pub const KEYS: &'static [&'static str] = &[$($key,)+];

            /// The settings that are not at their defaults and change what a row becomes, with the prefix `asap.`: their
            /// key, their value, and how they change it.
            pub fn of_results(&self) -> Vec<(&'static str, String, Effect)> {
                let default = Self::default();
                let changed = [$((concat!("asap.", $key), self.$field != default.$field, self.$field.show(), Effect::$effect),)+];
                let of_results = changed.into_iter().filter(|(_, is_set, _, effect)| *is_set && *effect != Effect::Calls);
                of_results.map(|(key, _, value, effect)| (key, value.unwrap_or_default(), effect)).collect()
            }

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
    /// The scoring model: a folder laid out as on Hugging Face (config.json, tokenizer.json, safetensors), `org/name` in the
    /// cache of the Hugging Face Hub, or `small`, the one that asap brings, which is a stand-in.
    scorer_model: String = asap_lm::SMALL.to_string(), "scorer.model", Files;
    /// What stands before a chain's first step: `chat` (the model's own template), or text in which `{question}` is
    /// replaced and `\n`, `\t` are escapes. Unset: `chat` where the model has a template, else `{question}\n<think>\n`.
    scorer_prompt: Option<String> = None, "scorer.prompt", Results;
    /// The type that the scoring model computes its projections in on the CPU: `f32`, or `bf16` (half the memory, and faster where the
    /// CPU multiplies bf16 numbers), which moves scores by a few thousandths. Attention, norms and output are f32.
    scorer_dtype: Dtype = Dtype::F32, "scorer.dtype", Results;
    /// What the scoring model is computed on: `cpu`, or `cuda`, the first visible NVIDIA GPU, in f16 (needs a build with
    /// `--features cuda`).
    scorer_device: ScorerDevice = ScorerDevice::Cpu, "scorer.device", Results;
    /// Who writes direct thoughts and prunes by them: `extractive` (rules, no language model, no network), `openai` (an
    /// endpoint that speaks OpenAI's chat completions) or `local` (a model in a folder).
    anchor_provider: Provider = Provider::Extractive, "anchor.provider", Results;
    /// Where the endpoint of `openai` is, as http://localhost:8000/v1: `/chat/completions` is added. No user, password,
    /// query or fragment.
    anchor_base_url: Option<String> = None, "anchor.base_url", Calls;
    /// The language model: its name at the endpoint (`openai`) or its folder (`local`).
    anchor_model: Option<String> = None, "anchor.model", Results;
    /// The name of the environment variable that holds the endpoint's API key. Unset: no key is sent.
    anchor_api_key_env: Option<String> = None, "anchor.api_key_env", Calls;
    /// Seconds that one request to the endpoint may take, from connecting to the answer's last byte.
    anchor_timeout: Seconds = Seconds(600.0), "anchor.timeout", Calls;
    /// The most tokens that an answer may have; one that is cut off there fails its row.
    anchor_max_tokens: Positive = Positive(8192), "anchor.max_tokens", Results;
    /// The most calls to the endpoint that run at once, in the whole process.
    anchor_max_concurrent_requests: Positive = Positive(64), "anchor.max_concurrent_requests", Calls;
    /// The most requests a minute to the endpoint, in the whole process and evenly spaced. Unset: no limit.
    anchor_max_requests_per_minute: Option<Positive> = None, "anchor.max_requests_per_minute", Calls;
    /// The most tokens a minute, in and out, in the whole process; estimated at four bytes a token before a call and
    /// corrected after it. Unset: no limit.
    anchor_max_tokens_per_minute: Option<Positive> = None, "anchor.max_tokens_per_minute", Calls;
    /// How often a failed request is sent again, if that can help.
    anchor_max_retries: i64 = 6, "anchor.max_retries", Calls;
    /// The most seconds of a pause that the endpoint asks for (Retry-After) which are waited before a call is sent again.
    anchor_max_retry_after: Seconds = Seconds(60.0), "anchor.max_retry_after", Calls;
    /// What a million tokens of prompts cost, in any currency.
    anchor_price_per_million_input_tokens: Money = Money(0.0), "anchor.price_per_million_input_tokens", Calls;
    /// What a million tokens of answers cost, in the same currency.
    anchor_price_per_million_output_tokens: Money = Money(0.0), "anchor.price_per_million_output_tokens", Calls;
    /// What may be spent, in the currency of the prices: by all runs of an output on a day (UTC), in SQL by a session. The
    /// rows behind it get the status `budget`. Unset: no limit.
    anchor_max_cost: Option<Money> = None, "anchor.max_cost", Calls;
    /// How many requests a session may send, retries included; the rows behind it get the status `budget`. Unset: no
    /// limit.
    anchor_max_calls: Option<i64> = None, "anchor.max_calls", Calls;
    /// The share of the endpoint's last 20 calls, from 0 to 1, of which more may not fail: else the query ends. It ends also
    /// where none of 20 in a row is answered, retries included. At 1 it goes on.
    anchor_max_error_rate: Ratio = Ratio(0.5), "anchor.max_error_rate", Calls;
    /// How often a coarse pruning is sampled until Algorithm 1 accepts it.
    anchor_max_attempts: Positive = Positive(5), "anchor.max_attempts", Results;
    /// Folder with anchor.md and coarse.md, which replace the prompts that asap comes with.
    anchor_prompt_dir: Option<String> = None, "anchor.prompt_dir", Files;
    /// The least Gestalt similarity at which a step of the coarse chain matches a step of the original (tau of
    /// Algorithm 1), from 0 to 1.
    match_threshold: Ratio = Ratio(0.6), "match.threshold", Results;
    /// The most tokens that a pruned chain may have (L_max of Algorithm 2).
    refine_max_tokens: i64 = 4096, "refine.max_tokens", Results;
    /// The share of the original chain's tokens that a pruned one may have, above 0 and at most 1, where `cot_budget` is
    /// given their number, as in every pipeline that asap brings; `asap.refine.max_tokens` holds beside it.
    refine_ratio: Share = Share(1.0), "refine.ratio", Results;
    /// The encoder that compresses texts (`cot_llmlingua2`): a folder laid out as on Hugging Face, or `org/name` in the cache
    /// of the Hub, with an XLM-RoBERTa or multilingual BERT that labels tokens, such as
    /// microsoft/llmlingua-2-xlm-roberta-large-meetingbank. Unset: no text can be compressed.
    compressor_model: Option<String> = None, "compressor.model", Files;
    /// Texts that a compression keeps wherever they stand, as a JSON list.
    compressor_force_tokens: Texts = Texts(vec![]), "compressor.force_tokens", Results;
    /// Whether a compression keeps all digits: `true` or `false`.
    compressor_reserve_digits: bool = false, "compressor.reserve_digits", Results;
    /// Whether a compression drops a forced text that follows the same one: `true` or `false`.
    compressor_drop_consecutive: bool = false, "compressor.drop_consecutive", Results;
    /// Folder of the answers that were paid for in SQL: a path or a URL. Unset: `asap` in `$XDG_CACHE_HOME`, else in
    /// `~/.cache`. A run keeps its answers beside its output instead.
    cache_dir: Option<String> = None, "cache.dir", Calls;
    /// What a session may remember, as `768M` or `2G`: tokens, scores, answers, and what a local language model has read. Of
    /// `datafusion.runtime.memory_limit` it takes a quarter at most.
    cache_memory: Bytes = Bytes(768 << 20), "cache.memory", Calls;
    /// Seconds for which a request to a store is sent again that fails because the store is unavailable. After that the command
    /// ends with exit code 75.
    store_retry_timeout: Seconds = Seconds(60.0), "store.retry_timeout", Calls;
    /// What a row that fails does: `reject` (it gets a status, the query goes on) or `fail` (the query fails).
    on_error: OnError = OnError::Reject, "on_error", Calls;
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

impl Settings {
    /// What a compression keeps or drops whatever its model says.
    pub fn compression(&self) -> Options {
        Options {
            force_tokens: self.compressor_force_tokens.0.clone(),
            reserve_digits: self.compressor_reserve_digits,
            drop_consecutive: self.compressor_drop_consecutive,
        }
    }
}

fn unknown_setting(key: &str) -> Result<()> {
    match typo::nearest(key, Settings::KEYS.iter().copied()) {
        Some(nearest) => config_err!("there is no setting asap.{key}; did you mean asap.{nearest}?"),
        None => {
            config_err!("there is no setting asap.{key}; information_schema.df_settings lists those that there are")
        }
    }
}

macro_rules! choice {
    ($type:ident, $expected:literal, $($name:literal => $variant:ident),+) => {
        impl Value for $type {
            const EXPECTED: &'static str = $expected;
            fn parse(text: &str) -> Option<Self> {
                match text { $($name => Some($type::$variant),)+ _ => None }
            }
            fn show(&self) -> Option<String> {
                Some(match self { $($type::$variant => $name,)+ }.to_string())
            }
        }
    };
}

choice!(Provider, "'extractive', 'openai' or 'local'", "extractive" => Extractive, "openai" => Openai, "local" => Local);
choice!(Dtype, "'f32' or 'bf16'", "f32" => F32, "bf16" => Bf16);
choice!(ScorerDevice, "'cpu' or 'cuda'", "cpu" => Cpu, "cuda" => Cuda);
choice!(OnError, "'reject' or 'fail'", "reject" => Reject, "fail" => Fail);

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show().unwrap_or_default())
    }
}

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
        for (key, value) in [
            ("scorer.dtype", "f16"),
            ("scorer.device", "gpu"),
            ("anchor.provider", "gpt"),
            ("anchor.timeout", "0"),
            ("anchor.max_tokens", "0"),
            ("anchor.max_requests_per_minute", "-1"),
            ("anchor.max_cost", "inf"),
            ("anchor.max_error_rate", "50%"),
            ("refine.ratio", "0"),
            ("compressor.force_tokens", "Step"),
            ("compressor.force_tokens", "[\"\"]"),
            ("refine.ratio", "1.01"),
            ("refine.ratio", "NaN"),
            ("cache.memory", "1.5G"),
            ("cache.memory", "512"),
        ] {
            let error = settings.set(key, value).unwrap_err().to_string();
            assert!(error.contains(&format!("asap.{key} takes")) && error.contains(value), "{error}");
        }
        settings.set("match.threshold", "0.7").unwrap();
        assert_eq!(settings.match_threshold, Ratio(0.7));
        settings.set("cache.memory", "2G").unwrap();
        assert_eq!((settings.cache_memory, settings.cache_memory.show()), (Bytes(2 << 30), Some("2G".to_string())));
    }

    #[test]
    fn empty_text_unsets_what_may_be_unset() {
        let mut settings = Settings::default();
        settings.set("anchor.max_cost", "2.5").unwrap();
        assert_eq!(settings.anchor_max_cost, Some(Money(2.5)));
        settings.set("anchor.max_cost", "").unwrap();
        assert_eq!(settings, Settings::default());
        assert!(settings.set("anchor.max_tokens", "").is_err());
    }
}
