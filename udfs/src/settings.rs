//! The settings of asap in one table, set in SQL as `SET asap.…`.

use std::any::Any;
use std::path::PathBuf;

use crate::typo;
use asap_kernels::budget;
use asap_kernels::front_end::{Setting, either};
use asap_kernels::steps::Separator;
use asap_llm::provider::Provider;
use asap_lm::Dtype;
use asap_lm::compressor::Options;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, config_datafusion_err, config_err};
use parking_lot::RwLock;

mod values;

use values::SettingValue;
pub use values::{Bytes, Device, Devices, Money, Positive, Ratio, Seconds, Share, Texts, Wait};

/// What runs the scoring model: the name of a kind of [backend](crate::scorers::Kind), or `auto`, which chooses one by
/// model and machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScorerBackend(&'static str);

/// Names of backends that programs registered.
static REGISTERED: RwLock<Vec<&'static str>> = RwLock::new(vec![]);

impl ScorerBackend {
    pub const AUTO: Self = Self("auto");

    /// Makes the name of a backend a value of `asap.scorer.backend`.
    pub(crate) fn register(name: &'static str) {
        REGISTERED.write().push(name);
    }

    /// The backend with a name that is a value of `asap.scorer.backend`.
    pub fn of(name: &'static str) -> Self {
        Self(name)
    }

    pub fn name(self) -> &'static str {
        self.0
    }
}

/// What runs the encoder that compresses texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressorBackend {
    /// [`Self::Torch`] on GPUs, else [`Self::Cpu`].
    Auto,
    Cpu,
    Torch,
}

/// Which steps of a conversation compete for the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Conversation,
    Turn,
}

/// The answers that the pipeline `tokenskip` trains on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkippedAnswer {
    Original,
    Sentence,
}

/// The prompts of stage 1 that ship with asap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptSet {
    Paper,
    Short,
}

/// Whether models may be downloaded from the Hugging Face Hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubAccess {
    Online,
    Offline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    Reject,
    Fail,
}

/// The effect of a setting on results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The setting changes results.
    Results,
    /// The setting changes results through the content of the files that it names, not through their paths. The
    /// identity of a run's pipeline contains these files.
    Files,
    /// The setting changes results through the backend of the scoring model and its data type, as far as settings leave
    /// the choice to the machine. The identity of a run's pipeline contains what was chosen.
    Backend,
    /// The setting changes how calls are made, cached and paid, how a run divides and commits its work, or whether a
    /// failure affects a row or the query. It does not change results.
    Calls,
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr, $key:literal, $effect:ident;)+) => {
        /// All settings of asap. Keys have the prefix `asap.`.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings { $($(#[doc = $doc])+ pub $field: $type,)+ }

        impl Default for Settings {
            fn default() -> Self { Self { $($field: $default,)+ } }
        }

        impl Settings {
            /// The keys that can be set, without the prefix `asap.`.
            pub const KEYS: &'static [&'static str] = &[$($key,)+];

            /// Returns the settings that differ from their defaults and change results: key with the prefix `asap.`,
            /// value and effect.
            pub fn of_results(&self) -> Vec<(&'static str, String, Effect)> {
                let default = Self::default();
                let changed = [$((concat!("asap.", $key), self.$field != default.$field, self.$field.show(), Effect::$effect),)+];
                let of_results = changed.into_iter().filter(|(_, is_set, _, effect)| *is_set && *effect != Effect::Calls);
                of_results.map(|(key, _, value, effect)| (key, value.unwrap_or_default(), effect)).collect()
            }
        }

        impl ExtensionOptions for Settings {
            fn as_any(&self) -> &dyn Any { self }
            fn as_any_mut(&mut self) -> &mut dyn Any { self }
            fn cloned(&self) -> Box<dyn ExtensionOptions> { Box::new(self.clone()) }
            fn set(&mut self, key: &str, value: &str) -> Result<()> {
                match key {
                    $($key => {
                        self.$field = <$type as SettingValue>::parse(value).ok_or_else(|| config_datafusion_err!(
                            "{} takes {}, found '{value}'", Setting(concat!("asap.", $key)), <$type as SettingValue>::EXPECTED))?;
                        Ok(())
                    })+
                    _ => unknown_setting(key),
                }
            }
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
    /// The scoring model: a folder in the Hugging Face layout (config.json, tokenizer.json, safetensors), `org/name` on
    /// the Hugging Face Hub, or `small`, a stub that ships with asap.
    scorer_model: String = asap_lm::SMALL.to_string(), "scorer.model", Files;
    /// The prompt before a chain's first step: `chat` (the model's chat template), or a text with the placeholder
    /// `{question}` and the escapes `\n` and `\t`. Unset: `chat` if the model has a template, else
    /// `{question}\n<think>\n`.
    scorer_prompt: Option<String> = None, "scorer.prompt", Results;
    /// What runs the scoring model: `cpu`, `cuda` (asap's engine, for Qwen2, Qwen3, Llama and Mistral; `cuda` computes
    /// in f16), `torch` (PyTorch and transformers in a child process, for any family), `served` (a server that has the
    /// model), `candle` (Phi-3, Gemma 2 and Qwen3-MoE on CPUs, in builds with the feature `candle`) or `auto`. `auto`
    /// takes asap's engine where it has the family, on the first GPU that has room if there is one, and otherwise
    /// `torch`. An output keeps the backend and data type of its first run.
    scorer_backend: ScorerBackend = ScorerBackend::AUTO, "scorer.backend", Backend;
    /// The data type of the scoring model: `f32` or `bf16`. On CPUs, `bf16` takes half the memory, is faster if the CPU
    /// multiplies bf16 numbers, and shifts scores by a few thousandths of a nat; norms and output are f32.
    /// It does not choose the device: `cuda` computes in f16 whatever is set, and asap says so. Unset: `f32` on CPUs, and
    /// `bf16` for `torch` on GPUs.
    scorer_dtype: Option<Dtype> = None, "scorer.dtype", Backend;
    /// The devices of the scoring model: `cpu`, `cuda` (the first visible NVIDIA GPU), or GPUs such as `cuda:0,cuda:1`.
    /// Each GPU holds the whole model. Unset: what the backend chooses, `cpu` if no GPU can be used.
    scorer_device: Option<Devices> = None, "scorer.device", Backend;
    /// The Python of the backend `torch`: a program with the packages torch and transformers.
    scorer_python: String = "python3".to_string(), "scorer.python", Calls;
    /// The address of the server of the backend `served`, such as http://localhost:8000/v1. It must not contain a user,
    /// password, query or fragment. The limits of calls are those of `asap.anchor`: `max_concurrent_requests`,
    /// `max_requests_per_minute`, `max_tokens_per_minute`, `timeout`, `max_retries`, `max_retry_after`,
    /// `max_error_rate`.
    scorer_base_url: Option<String> = None, "scorer.base_url", Calls;
    /// The name of the environment variable that holds the API key of the server of the scoring model. Unset: no key is
    /// sent.
    scorer_api_key_env: Option<String> = None, "scorer.api_key_env", Calls;
    /// The name of the scoring model at its server. Unset: the only model that the server lists.
    scorer_served_model: Option<String> = None, "scorer.served_model", Results;
    /// The provider of direct thoughts and coarse prunings: `extractive` (rules, no language model, no network),
    /// `openai` (an endpoint with OpenAI's chat completions API) or `local` (a model on the CPU).
    anchor_provider: Provider = Provider::Extractive, "anchor.provider", Results;
    /// The address of the endpoint if the provider is `openai`, such as http://localhost:8000/v1. asap appends
    /// `/chat/completions`. The address must not contain a user, password, query or fragment.
    anchor_base_url: Option<String> = None, "anchor.base_url", Calls;
    /// The language model: its name at the endpoint (`openai`), or its folder or `org/name` on the Hugging Face Hub
    /// (`local`).
    anchor_model: Option<String> = None, "anchor.model", Results;
    /// The name of the environment variable that holds the endpoint's API key. Unset: no key is sent.
    anchor_api_key_env: Option<String> = None, "anchor.api_key_env", Calls;
    /// The timeout of one request to the endpoint in seconds, from connecting to the last byte of the answer.
    anchor_timeout: Seconds = Seconds(600.0), "anchor.timeout", Calls;
    /// The maximum number of tokens of an answer. If an answer is cut off at this limit, the call fails.
    anchor_max_tokens: Positive = Positive(8192), "anchor.max_tokens", Results;
    /// Whether requests name their maximum number of tokens `max_completion_tokens` instead of `max_tokens`: `true` or
    /// `false`. Unset: `false`, until the endpoint refuses `max_tokens`.
    anchor_send_max_completion_tokens: Option<bool> = None, "anchor.send_max_completion_tokens", Calls;
    /// Whether requests contain the temperature: `true` or `false`. Without it, the endpoint's default applies. Unset:
    /// `true`, until the endpoint refuses the temperature.
    anchor_send_temperature: Option<bool> = None, "anchor.send_temperature", Calls;
    /// Whether requests contain `top_p`: `true` or `false`. Without it, the endpoint's default applies. Unset: `true`,
    /// until the endpoint refuses `top_p`.
    anchor_send_top_p: Option<bool> = None, "anchor.send_top_p", Calls;
    /// The window of the model at the endpoint: the maximum number of tokens of a prompt and its answer. Unset: the
    /// window that the endpoint names when it refuses a request.
    anchor_window: Option<Positive> = None, "anchor.window", Calls;
    /// The maximum number of concurrent calls to the endpoint in the whole process.
    anchor_max_concurrent_requests: Positive = Positive(64), "anchor.max_concurrent_requests", Calls;
    /// The maximum number of requests per minute to the endpoint in the whole process, evenly spaced. Unset: no limit.
    anchor_max_requests_per_minute: Option<Positive> = None, "anchor.max_requests_per_minute", Calls;
    /// The maximum number of tokens per minute, in and out, in the whole process. Before a call, asap estimates four
    /// bytes per token. After the call, asap corrects the estimate. Unset: no limit.
    anchor_max_tokens_per_minute: Option<Positive> = None, "anchor.max_tokens_per_minute", Calls;
    /// The maximum number of retries of a failed request, if a retry can help.
    anchor_max_retries: i64 = 6, "anchor.max_retries", Calls;
    /// The longest pause in seconds before a retry when the endpoint asks for a pause (Retry-After).
    anchor_max_retry_after: Seconds = Seconds(60.0), "anchor.max_retry_after", Calls;
    /// The price of a million prompt tokens, in any currency.
    anchor_price_per_million_input_tokens: Money = Money(0.0), "anchor.price_per_million_input_tokens", Calls;
    /// The price of a million answer tokens, in the currency of the price of prompt tokens.
    anchor_price_per_million_output_tokens: Money = Money(0.0), "anchor.price_per_million_output_tokens", Calls;
    /// The limit on cost, in the currency of the prices. In a run, the limit applies to all runs into the same output
    /// on one day (UTC). In SQL, the limit applies to one session. When the limit is reached, a run ends, and in SQL
    /// the remaining rows get the status `budget`. Unset: no limit.
    anchor_max_cost: Option<Money> = None, "anchor.max_cost", Calls;
    /// The maximum number of requests in a session, including retries. When the limit is reached, a run ends, and in
    /// SQL the remaining rows get the status `budget`. Unset: no limit.
    anchor_max_calls: Option<i64> = None, "anchor.max_calls", Calls;
    /// The share of the endpoint's last 20 calls that may fail, from 0 to 1. If more calls fail, the query ends. The
    /// query also ends if 20 consecutive requests get no answer. Each retry counts as a request. The value 1 turns
    /// off both checks.
    anchor_max_error_rate: Ratio = Ratio(0.5), "anchor.max_error_rate", Calls;
    /// The maximum number of coarse prunings that asap samples for a chain until Algorithm 1 accepts one. With 0, asap
    /// samples until it accepts one, as in the paper: this needs `asap.anchor.max_calls` or `asap.anchor.max_cost`.
    anchor_max_attempts: i64 = 5, "anchor.max_attempts", Results;
    /// The prompts of stage 1: `paper` (as the ASAP paper describes them: numbered steps, then the final answer) or
    /// `short` (a direct thought of a few sentences without code).
    anchor_prompts: PromptSet = PromptSet::Paper, "anchor.prompts", Files;
    /// A folder with the files anchor.md and coarse.md. These prompts replace the prompts that ship with asap.
    anchor_prompt_dir: Option<String> = None, "anchor.prompt_dir", Files;
    /// What separates the steps of a chain: `blank-line` (as in the ASAP paper) or `line` (a step ends at each line break
    /// outside of code fences, displayed formulas, tables and lists).
    chain_steps: Separator = Separator::BlankLine, "chain.steps", Results;
    /// The minimum Gestalt similarity, from 0 to 1, at which a step of the coarse chain matches a step of the original
    /// chain (tau of Algorithm 1).
    match_threshold: Ratio = Ratio(0.6), "match.threshold", Results;
    /// The maximum number of tokens of a pruned chain (L_max of Algorithm 2). Unset: 4096, or only
    /// `asap.refine.ratio` if that is set.
    refine_max_tokens: Option<Positive> = None, "refine.max_tokens", Results;
    /// The maximum length of a pruned chain, as a share of the original chain's tokens, above 0 and at most 1. The
    /// share applies if a pipeline passes the length of the original chain to `cot_budget`. If
    /// `asap.refine.max_tokens` is set too, the smaller of both applies.
    refine_ratio: Option<Share> = None, "refine.ratio", Results;
    /// Which steps of a conversation compete for the budget: all of the `conversation`, or those of a `turn`, which gets a
    /// share of the budget by its tokens.
    refine_scope: Scope = Scope::Conversation, "refine.scope", Results;
    /// The encoder that compresses texts (`cot_llmlingua2`): a folder in the Hugging Face layout, or `org/name` on the
    /// Hub. The model must be an XLM-RoBERTa or multilingual BERT that labels tokens, such as
    /// microsoft/llmlingua-2-xlm-roberta-large-meetingbank. Unset: `cot_llmlingua2` fails.
    compressor_model: Option<String> = None, "compressor.model", Files;
    /// What runs the encoder: `cpu` (asap's engine), `torch` (PyTorch and transformers in a child process, by
    /// `asap.scorer.python`) or `auto`: `torch` if `asap.compressor.device` names GPUs, else `cpu`. Both compute in f32.
    /// An output keeps the backend of its first run.
    compressor_backend: CompressorBackend = CompressorBackend::Auto, "compressor.backend", Backend;
    /// The devices of the encoder: `cpu`, `cuda` (the first visible NVIDIA GPU), or GPUs such as `cuda:0,cuda:1`. Each GPU
    /// holds the whole encoder. Unset: `cpu`, or what `torch` finds if it is the backend.
    compressor_device: Option<Devices> = None, "compressor.device", Backend;
    /// The texts that a compression always keeps, as a JSON list.
    compressor_force_tokens: Texts = Texts(vec![]), "compressor.force_tokens", Results;
    /// Whether a compression keeps all digits: `true` or `false`.
    compressor_reserve_digits: bool = false, "compressor.reserve_digits", Results;
    /// Whether a compression keeps only the first of consecutive equal texts of `asap.compressor.force_tokens`: `true`
    /// or `false`.
    compressor_drop_consecutive: bool = false, "compressor.drop_consecutive", Results;
    /// The answers that the pipeline `tokenskip` trains on (`cot_tokenskip_answer`): `original`, as in the ASAP paper, or
    /// `sentence`, the sentence with the final answer of TokenSkip's own paper.
    tokenskip_answer: SkippedAnswer = SkippedAnswer::Original, "tokenskip.answer", Results;
    /// The folder of the answer cache: a path or a URL. Unset: a run stores its answers in its output, and SQL in
    /// `asap` in `$XDG_CACHE_HOME`, else in `~/.cache`. A run whose output already has answers uses these.
    cache_dir: Option<String> = None, "cache.dir", Calls;
    /// The memory limit for the caches of one model in a session, such as `768M` or `2G`. The scoring model and the
    /// language model have separate caches. The caches hold tokens, scores, answers, and attention keys and values. The
    /// caches of both models together take at most a quarter of `datafusion.runtime.memory_limit`.
    cache_memory: Bytes = Bytes(768 << 20), "cache.memory", Calls;
    /// The time in seconds for which asap retries a request to an unavailable store. After this time, the command ends
    /// with exit code 75.
    store_retry_timeout: Seconds = Seconds(60.0), "store.retry_timeout", Calls;
    /// Whether asap downloads models that are not in the cache of the Hugging Face Hub: `online` or `offline`.
    hub: HubAccess = HubAccess::Online, "hub", Calls;
    /// The maximum number of rows of a slice of a run. Unset: about a minute of work.
    run_slice_rows: Option<Positive> = None, "run.slice_rows", Calls;
    /// The size in bytes at which a run closes a shard.
    run_shard_bytes: Positive = Positive(256 << 20), "run.shard_bytes", Calls;
    /// The time in seconds after which a run commits its finished slices, at the latest.
    run_commit_seconds: Wait = Wait(60.0), "run.commit_seconds", Calls;
    /// The time in seconds that a run has to end after SIGTERM or Ctrl-C.
    run_grace_seconds: Wait = Wait(25.0), "run.grace_seconds", Calls;
    /// The effect of a failed row: `reject` (the row gets a status, the query continues) or `fail` (the query fails).
    on_error: OnError = OnError::Reject, "on_error", Calls;
}

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "asap";
}

impl Settings {
    /// L_max of the ASAP paper: the maximum number of tokens of a pruned chain if no setting limits it.
    pub const MAX_TOKENS: i64 = 4096;

    /// Returns the settings of a session. Fails if the session was built without them.
    pub fn of(config: &ConfigOptions) -> Result<&Settings> {
        config.extensions.get::<Settings>().ok_or_else(|| {
            config_datafusion_err!(
                "the session has no asap settings: add asap_udfs::Settings to the extensions of its ConfigOptions"
            )
        })
    }

    /// The largest number of tokens that a pruned chain may have, if the original chain has this many tokens. Without
    /// that length, the ratio has no effect.
    pub fn budget(&self, tokens: Option<i64>) -> i64 {
        let share = |(ratio, tokens): (Share, i64)| budget::share(ratio.0, usize::try_from(tokens).unwrap_or(0)) as i64;
        let share = self.refine_ratio.zip(tokens).map(share);
        let smallest = share.into_iter().chain(self.refine_max_tokens.map(|tokens| tokens.0.into())).min();
        smallest.unwrap_or(Self::MAX_TOKENS)
    }

    /// Returns the folder of the scoring model, whose weights are missing if a server has it.
    ///
    /// # Errors
    /// If there is no such model, or it cannot be downloaded.
    pub fn scorer_folder(&self) -> asap_lm::Result<PathBuf> {
        self.apply_hub();
        let is_served = match self.scorer_backend {
            ScorerBackend::AUTO => self.scorer_base_url.is_some(),
            backend => backend.name() == "served",
        };
        if is_served { self.scorer_tokenizer() } else { asap_lm::locate(&self.scorer_model) }
    }

    /// As [`Self::scorer_folder`], for work that needs no weights.
    ///
    /// # Errors
    /// As [`Self::scorer_folder`].
    pub fn scorer_tokenizer(&self) -> asap_lm::Result<PathBuf> {
        self.apply_hub();
        asap_lm::locate_tokenizer(&self.scorer_model)
    }

    /// Forbids or allows downloads of models in this process, as `asap.hub` says.
    pub fn apply_hub(&self) {
        asap_hub::set_offline(self.hub == HubAccess::Offline);
    }

    /// Whether the encoder that compresses texts runs on the cores of this process or of a child, as far as settings say.
    pub fn encodes_on_cores(&self) -> bool {
        self.compressor_device.as_ref().is_none_or(Devices::is_cpu)
    }

    pub fn compression(&self) -> Options {
        Options {
            force_tokens: self.compressor_force_tokens.0.clone(),
            reserve_digits: self.compressor_reserve_digits,
            drop_consecutive: self.compressor_drop_consecutive,
        }
    }
}

fn unknown_setting(key: &str) -> Result<()> {
    if key.starts_with("datafusion.") {
        return config_err!(
            "{key} is a setting of the SQL engine, which only SET in asap sql takes: -c \"SET {key} = '…'\" before the query"
        );
    }
    let near = typo::nearest(key, Settings::KEYS.iter().copied());
    let is_without_group = |known: &&&str| known.rsplit('.').next() == Some(key);
    let spelled = |key: &str| Setting(&format!("asap.{key}")).to_string();
    let mut meant: Vec<String> = Settings::KEYS.iter().filter(is_without_group).map(|known| spelled(known)).collect();
    if meant.is_empty() {
        meant.extend(near.map(spelled));
    }
    let is_near = near.is_some_and(|near| !near.ends_with("api_key_env"));
    match key.rsplit(['.', '_']).next() {
        Some("token") if !is_near => {
            return config_err!(
                "there is no setting {}: the variable HF_TOKEN holds the token of the Hub",
                spelled(key)
            );
        }
        Some("key" | "secret" | "password") if !is_near => {
            return config_err!(
                "there is no setting {}: a key stays in the environment, in a variable such as PROVIDER_KEY; set {} to the name of \
                 the variable",
                spelled(key),
                spelled(near.unwrap_or("anchor.api_key_env"))
            );
        }
        _ => {}
    }
    let all = either("information_schema.df_settings lists all settings", "asap.settings() lists all");
    match meant.join(" or ") {
        meant if meant.is_empty() => config_err!("there is no setting {}; {all}", spelled(key)),
        meant => config_err!("there is no setting {}; did you mean {meant}?", spelled(key)),
    }
}

macro_rules! choice {
    ($type:ident, $expected:literal, $($name:literal => $variant:ident),+) => {
        impl SettingValue for $type {
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

choice!(Dtype, "'f32' or 'bf16'", "f32" => F32, "bf16" => Bf16);
choice!(CompressorBackend, "'auto', 'cpu' or 'torch'", "auto" => Auto, "cpu" => Cpu, "torch" => Torch);
choice!(Scope, "'conversation' or 'turn'", "conversation" => Conversation, "turn" => Turn);
choice!(SkippedAnswer, "'original' or 'sentence'", "original" => Original, "sentence" => Sentence);
choice!(PromptSet, "'paper' or 'short'", "paper" => Paper, "short" => Short);
choice!(HubAccess, "'online' or 'offline'", "online" => Online, "offline" => Offline);
choice!(OnError, "'reject' or 'fail'", "reject" => Reject, "fail" => Fail);

impl SettingValue for ScorerBackend {
    const EXPECTED: &'static str = "'auto', 'cpu', 'cuda', 'torch', 'served' or 'candle'";
    fn parse(text: &str) -> Option<Self> {
        let own = ["auto", "cpu", "cuda", "torch", "served", "candle"];
        own.into_iter().chain(REGISTERED.read().iter().copied()).find(|name| *name == text).map(Self)
    }
    fn show(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl SettingValue for Separator {
    const EXPECTED: &'static str = "'blank-line' or 'line'";
    fn parse(text: &str) -> Option<Self> {
        Self::named(text)
    }
    fn show(&self) -> Option<String> {
        Some(self.name().to_string())
    }
}

impl SettingValue for Provider {
    const EXPECTED: &'static str = Provider::EXPECTED;
    fn parse(text: &str) -> Option<Self> {
        Self::named(text)
    }
    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}
