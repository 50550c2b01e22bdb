//! A model's `config.json`, in the style of transformers 4 or 5, read into what the decoder computes.
//!
//! Whatever could change the result and is not known here is refused by name.

mod rope;

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::{LmError, Result};
pub use rope::{RopeConfig, RopeScaling};

/// The architectures that the decoder computes. They share one forward and differ in biases and in the norms of
/// queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Qwen2 and Qwen2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen3: queries and keys are normalised per head.
    Qwen3,
    /// Llama 1 to 3.
    Llama,
    /// Mistral without a sliding window.
    Mistral,
}

impl Family {
    const ALL: [(Family, &str, &str); 4] = [
        (Family::Qwen2, "qwen2", "Qwen2ForCausalLM"),
        (Family::Qwen3, "qwen3", "Qwen3ForCausalLM"),
        (Family::Llama, "llama", "LlamaForCausalLM"),
        (Family::Mistral, "mistral", "MistralForCausalLM"),
    ];
}

/// The shape of a model, with the field names of `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The architecture (`model_type`).
    pub family: Family,
    /// Rows of the embedding and columns of the output layer.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width between the projections of a layer's MLP.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; a divisor of the query heads.
    pub num_key_value_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// The model's window in tokens.
    pub max_position_embeddings: usize,
    /// Added to the mean square in every norm.
    pub rms_norm_eps: f64,
    /// Rotary position embedding.
    pub rope: RopeConfig,
    /// Whether the output layer is the embedding.
    pub tie_word_embeddings: bool,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Whether the attention's output projection has a bias.
    pub output_bias: bool,
}

/// The heads of a layer. Query head h reads key head h / (query / key).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads.
    pub key: usize,
    /// Dimensions of a head.
    pub width: usize,
}

/// Keys that say nothing about what the model computes.
const HARMLESS: &[&str] = &[
    "_name_or_path",
    "attention_dropout",
    "bos_token_id",
    "eos_token_id",
    "initializer_range",
    "max_window_layers",
    "pad_token_id",
    "pretraining_tp",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
];

const READ: &[&str] = &[
    "architectures",
    "attention_bias",
    "dtype",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "mlp_bias",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "tie_word_embeddings",
    "torch_dtype",
    "use_sliding_window",
    "vocab_size",
];

impl ModelConfig {
    /// The heads of every layer.
    pub fn heads(&self) -> Heads {
        Heads { query: self.num_attention_heads, key: self.num_key_value_heads, width: self.head_dim }
    }

    /// Reads `config.json` of a model's folder.
    ///
    /// # Errors
    /// If the file is missing, is not JSON, lacks a field, or names something that the decoder does not compute.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("config.json");
        let text = fs::read_to_string(&path).map_err(|source| LmError::Read { path: path.clone(), source })?;
        Self::parse(&text).map_err(|found| LmError::Unsupported { path, found })
    }

    /// Reads the text of a `config.json`; the error says which field is wrong and what is supported.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let fields = Fields::new(value.as_object().ok_or("expected a JSON object")?, "");
        let family = family(&fields)?;
        fields.refuse_unknown(|key| READ.contains(&key) || HARMLESS.contains(&key))?;
        refuse_unsupported(&fields, family)?;

        let heads = fields.required("num_attention_heads", Fields::count)?;
        let hidden_size = fields.required("hidden_size", Fields::count)?;
        let max_position_embeddings = fields.required("max_position_embeddings", Fields::count)?;
        let attention_bias = fields.flag("attention_bias")?.unwrap_or(false);
        let config = Self {
            family,
            vocab_size: fields.required("vocab_size", Fields::count)?,
            hidden_size,
            intermediate_size: fields.required("intermediate_size", Fields::count)?,
            num_hidden_layers: fields.required("num_hidden_layers", Fields::count)?,
            num_attention_heads: heads,
            // The first Llama files have neither field: one key head per query head, heads that fill the hidden size.
            num_key_value_heads: match (fields.count("num_key_value_heads")?, family) {
                (Some(count), _) => count,
                (None, Family::Llama) => heads,
                (None, _) => return Err("num_key_value_heads is missing".to_string()),
            },
            head_dim: match (fields.count("head_dim")?, family) {
                (Some(width), _) => width,
                (None, Family::Qwen3) => return Err("head_dim is missing".to_string()),
                (None, _) if hidden_size.is_multiple_of(heads) => hidden_size / heads,
                (None, _) => return Err(format!("{heads} attention heads do not divide hidden_size {hidden_size}")),
            },
            max_position_embeddings,
            rms_norm_eps: fields.required("rms_norm_eps", Fields::number)?,
            rope: RopeConfig::parse(&fields, family, max_position_embeddings)?,
            // All four families leave the field out where the output layer has weights of its own.
            tie_word_embeddings: fields.flag("tie_word_embeddings")?.unwrap_or(false),
            qkv_bias: family == Family::Qwen2 || attention_bias,
            output_bias: attention_bias,
        };
        config.check_heads()?;
        Ok(config)
    }

    fn check_heads(&self) -> std::result::Result<(), String> {
        let (heads, key_heads) = (self.num_attention_heads, self.num_key_value_heads);
        if !heads.is_multiple_of(key_heads) {
            return Err(format!("num_key_value_heads {key_heads} does not divide num_attention_heads {heads}"));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(format!("head_dim must be even for rotary positions, found {}", self.head_dim));
        }
        Ok(())
    }
}

fn family(fields: &Fields) -> std::result::Result<Family, String> {
    let model_type = fields.required("model_type", Fields::text)?;
    let known = Family::ALL.iter().find(|(_, name, _)| *name == model_type);
    let Some((family, _, architecture)) = known else {
        return Err(format!("model_type '{model_type}' is not supported: expected qwen2, qwen3, llama or mistral"));
    };
    let named = fields.texts("architectures")?;
    if named.as_ref().is_some_and(|named| !named.contains(architecture)) {
        return Err(format!("architectures {named:?} is not supported: expected {architecture}"));
    }
    Ok(*family)
}

fn refuse_unsupported(fields: &Fields, family: Family) -> std::result::Result<(), String> {
    let activation = fields.required("hidden_act", Fields::text)?;
    if activation != "silu" {
        return Err(format!("hidden_act '{activation}' is not supported: expected silu"));
    }
    if fields.flag("mlp_bias")? == Some(true) {
        return Err("mlp_bias is not supported: expected false".to_string());
    }
    if matches!(family, Family::Qwen2 | Family::Mistral) && fields.get("attention_bias").is_some() {
        return Err(format!("attention_bias is not a field of {family:?}"));
    }
    if let Some(kind) = fields.texts("layer_types")?.and_then(|all| all.into_iter().find(|t| *t != "full_attention")) {
        return Err(format!("layer_types holds '{kind}', which is not supported: expected full_attention"));
    }
    let window = fields.count("sliding_window")?;
    let in_use = match family {
        Family::Qwen2 | Family::Qwen3 => fields.flag("use_sliding_window")? == Some(true),
        Family::Llama | Family::Mistral => window.is_some(),
    };
    let shorter = window < fields.count("max_position_embeddings")?;
    if in_use && shorter {
        return Err(format!("sliding_window {window:?} is in use, which is not supported"));
    }
    let types = [fields.text("torch_dtype")?, fields.text("dtype")?];
    if let [Some(old), Some(new)] = types
        && old != new
    {
        return Err(format!("torch_dtype '{old}' and dtype '{new}' disagree"));
    }
    let supported = ["float32", "float16", "bfloat16"];
    match types.into_iter().flatten().find(|dtype| !supported.contains(dtype)) {
        Some(dtype) => Err(format!("dtype '{dtype}' is not supported: expected float32, float16 or bfloat16")),
        None => Ok(()),
    }
}

/// A JSON object that is read field by field; null counts as absent.
struct Fields<'a> {
    values: &'a Map<String, Value>,
    /// What stands before a key in messages.
    place: &'static str,
}

impl<'a> Fields<'a> {
    fn new(values: &'a Map<String, Value>, place: &'static str) -> Self {
        Self { values, place }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        as_type: impl Fn(&'a Value) -> Option<T>,
    ) -> std::result::Result<Option<T>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match as_type(value) {
                Some(read) => Ok(Some(read)),
                None => Err(format!("{}{key} must be {expected}, found {value}", self.place)),
            },
        }
    }

    fn count(&self, key: &str) -> std::result::Result<Option<usize>, String> {
        let count = |value: &Value| value.as_u64().filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
        self.read(key, "a whole number above 0", count)
    }

    fn number(&self, key: &str) -> std::result::Result<Option<f64>, String> {
        self.read(key, "a number above 0", |value| value.as_f64().filter(|n| *n > 0.0))
    }

    fn flag(&self, key: &str) -> std::result::Result<Option<bool>, String> {
        self.read(key, "true or false", Value::as_bool)
    }

    fn text(&self, key: &str) -> std::result::Result<Option<&'a str>, String> {
        self.read(key, "a string", Value::as_str)
    }

    fn texts(&self, key: &str) -> std::result::Result<Option<Vec<&'a str>>, String> {
        let texts = |value: &'a Value| value.as_array()?.iter().map(Value::as_str).collect();
        self.read(key, "a list of strings", texts)
    }

    fn object(&self, key: &'static str, place: &'static str) -> std::result::Result<Option<Fields<'a>>, String> {
        self.read(key, "an object", |value| value.as_object().map(|values| Fields::new(values, place)))
    }

    fn required<T>(
        &self,
        key: &str,
        read: impl Fn(&Self, &str) -> std::result::Result<Option<T>, String>,
    ) -> std::result::Result<T, String> {
        read(self, key)?.ok_or_else(|| format!("{}{key} is missing", self.place))
    }

    /// Refuses the first key that is not known, unless its value says that the feature is off.
    fn refuse_unknown(&self, known: impl Fn(&str) -> bool) -> std::result::Result<(), String> {
        let is_off = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            _ => false,
        };
        match self.values.iter().find(|(key, value)| !known(key) && !is_off(value)) {
            Some((key, value)) => Err(format!("{}{key} = {value} is not known", self.place)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RopeScaling;
    use serde_json::json;

    fn qwen2() -> Value {
        json!({
            "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 64,
            "intermediate_size": 160, "max_position_embeddings": 4096, "num_attention_heads": 4,
            "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
            "sliding_window": 4096, "use_sliding_window": false, "tie_word_embeddings": true, "vocab_size": 1703,
            "torch_dtype": "float32", "quantization_config": null
        })
    }

    fn with(changes: Value) -> std::result::Result<ModelConfig, String> {
        let mut config = qwen2();
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        ModelConfig::parse(&config.to_string())
    }

    #[test]
    fn both_styles_say_the_same() {
        let old = with(json!({})).unwrap();
        assert_eq!((old.head_dim, old.qkv_bias, old.output_bias), (16, true, false));
        let new = with(json!({"rope_theta": null, "torch_dtype": null, "dtype": "float32",
            "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}, "layer_types": ["full_attention"]}));
        assert_eq!(new.unwrap(), old);

        let scaling = json!({"type": "linear", "factor": 4.0});
        let old = with(json!({"rope_scaling": scaling})).unwrap();
        assert_eq!(old.rope.scaling, RopeScaling::Linear { factor: 4.0 });
        let new = json!({"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6});
        assert_eq!(with(json!({"rope_theta": null, "rope_parameters": new})).unwrap(), old);
        assert_eq!(with(json!({"rope_scaling": scaling, "rope_parameters": new})).unwrap(), old);
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let cases = [
            (json!({"model_type": "gemma3"}), "'gemma3'"),
            (json!({"architectures": ["Qwen2ForRewardModel"]}), "Qwen2ForRewardModel"),
            (json!({"hidden_act": "gelu"}), "'gelu'"),
            (json!({"quantization_config": {"bits": 4}}), "quantization_config"),
            (json!({"use_sliding_window": true, "sliding_window": 512}), "sliding_window"),
            (json!({"model_type": "mistral", "architectures": null, "sliding_window": 512}), "sliding_window"),
            (json!({"layer_types": ["full_attention", "sliding_attention"]}), "sliding_attention"),
            (json!({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}), "dynamic"),
            (json!({"rope_scaling": {"type": "default", "mrope_section": [1, 2]}}), "mrope_section"),
            (json!({"torch_dtype": "float8"}), "float8"),
            (json!({"attention_bias": true}), "attention_bias"),
            (json!({"residual_multiplier": 0.2}), "residual_multiplier"),
            (json!({"num_experts": 8}), "num_experts"),
            (json!({"num_key_value_heads": 3}), "num_key_value_heads"),
            (json!({"head_dim": 15}), "head_dim"),
            (json!({"hidden_size": "64"}), "hidden_size"),
            (json!({"vocab_size": null}), "vocab_size is missing"),
        ];
        for (changes, named) in cases {
            let error = with(changes.clone()).expect_err(&changes.to_string());
            assert!(error.contains(named), "{changes}: {error}");
        }
    }

    #[test]
    fn a_file_that_contradicts_itself_is_refused() {
        let linear = json!({"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6});
        let cases = [
            json!({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
            json!({"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_parameters": linear}),
            json!({"rope_scaling": {"type": "yarn", "rope_type": "linear", "factor": 4.0}}),
            json!({"dtype": "bfloat16"}),
        ];
        for changes in cases {
            let error = with(changes.clone()).expect_err(&changes.to_string());
            assert!(error.contains("disagree"), "{changes}: {error}");
        }
    }

    #[test]
    fn the_first_llama_files_are_understood() {
        let config = json!({
            "model_type": "llama", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 160,
            "max_position_embeddings": 2048, "num_attention_heads": 4, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
            "vocab_size": 100
        });
        let config = ModelConfig::parse(&config.to_string()).unwrap();
        assert_eq!((config.num_key_value_heads, config.head_dim, config.rope.theta), (4, 16, 10_000.0));
    }
}
