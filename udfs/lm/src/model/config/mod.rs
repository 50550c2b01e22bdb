//! Parses `config.json` of a decoder or an encoder, in the style of transformers 4 or 5.
//!
//! An unknown field that could change the result is an error that names the field.

mod encoder;
mod fields;
mod rope;

use std::path::Path;

use crate::ops::Heads;
use crate::{LmError, Result};
pub use encoder::{EncoderConfig, EncoderFamily};
use fields::{Fields, Parsed, json};
pub use rope::{RopeConfig, RopeScaling};

/// Decoder architectures. They share one forward pass and differ in biases and in the norms of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Qwen2 and Qwen2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen3: RMSNorm on each head of queries and keys.
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

/// The shape of a decoder, with the field names of `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    pub family: Family,
    /// Number of rows of the embedding and of the output layer.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width between the projections of a layer's MLP.
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    /// Number of key and value heads; divides the number of query heads.
    pub num_key_value_heads: usize,
    /// Width of a head; must be even.
    pub head_dim: usize,
    /// Context window in tokens. If attention slides or is chunked beyond a shorter length, this is that length.
    pub max_position_embeddings: usize,
    pub rms_norm_eps: f64,
    pub rope: RopeConfig,
    /// Whether the output layer shares the embedding.
    pub tie_word_embeddings: bool,
    pub qkv_bias: bool,
    pub output_bias: bool,
    /// Notes on unknown or adjusted fields that do not change the result.
    pub notes: Vec<String>,
}

/// The sizes that scores need. The `config.json` of any family has them, some in `text_config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `max_position_embeddings`: most tokens of a chain with its prompt.
    pub window: usize,
    /// `vocab_size`.
    pub vocabulary: usize,
}

impl Limits {
    /// # Errors
    /// If the file is missing, is not JSON, or lacks a size, or if a size is that of no model.
    pub fn load(folder: &Path) -> Result<Self> {
        load(folder, |text| {
            let config = json(text)?;
            let fields = Fields::of(&config)?;
            let fields = fields.object("text_config", "text_config.")?.unwrap_or(fields);
            fields.check_sizes()?;
            Ok(Self {
                window: fields.required("max_position_embeddings", Fields::count)?,
                vocabulary: fields.required("vocab_size", Fields::count)?,
            })
        })
    }
}

/// The most channels of all heads together, and the most parameters: far above those of any model, and far below where
/// products overflow.
const MOST_WIDTH: usize = 1 << 24;
const MOST_PARAMETERS: u128 = 1 << 46;

/// Keys that do not affect the computation; the last ones, from `chunk_size_feed_forward` on, are generic defaults of
/// transformers and defaults for generation.
const HARMLESS: &str = "
    attention_dropout attn_implementation bos_token_id eos_token_id initializer_range internal_version is_llama_config
    max_sequence_length max_window_layers pad_token_id pretraining_tp transformers.js_config transformers_version
    unsloth_fixed unsloth_version use_cache
    chunk_size_feed_forward diversity_penalty encoder_no_repeat_ngram_size id2label label2id length_penalty max_length
    min_length no_repeat_ngram_size num_beam_groups num_beams num_return_sequences repetition_penalty return_dict
    temperature top_k top_p typical_p";

const READ: &str = "
    activation architectures attention_bias dtype dual_chunk_attention_config head_dim hidden_act hidden_size
    intermediate_size layer_types max_position_embeddings mlp_bias model_type num_attention_heads num_hidden_layers
    num_key_value_heads rms_norm_eps rope_parameters rope_scaling rope_theta sliding_window tie_word_embeddings
    torch_dtype use_sliding_window vocab_size";

pub(crate) fn load<C>(folder: &Path, parse: impl FnOnce(&str) -> Parsed<C>) -> Result<C> {
    let path = folder.join("config.json");
    let text = std::fs::read_to_string(&path).map_err(LmError::reading(&path))?;
    parse(&text).map_err(|found| LmError::Unsupported { path, found })
}

impl ModelConfig {
    /// Returns the number of parameters: embedding, layers, final norm, and the output layer unless it is tied.
    pub fn parameters(&self) -> u64 {
        u64::try_from(self.all_parameters()).unwrap_or(u64::MAX)
    }

    /// As wide as a product of three sizes may become.
    fn all_parameters(&self) -> u128 {
        let wide = |size: usize| size as u128;
        let (hidden, heads, width) = (wide(self.hidden_size), wide(self.num_attention_heads), wide(self.head_dim));
        let (queries, keys) = (heads * width, wide(self.num_key_value_heads) * width);
        let attention = hidden * (queries + 2 * keys) + queries * hidden;
        let biases = u128::from(self.qkv_bias) * (queries + 2 * keys) + u128::from(self.output_bias) * hidden;
        let head_norms = if self.family == Family::Qwen3 { 2 * width } else { 0 };
        let mlp = 3 * hidden * wide(self.intermediate_size);
        let layer = attention + biases + head_norms + mlp + 2 * hidden;
        let embeddings = wide(self.vocab_size) * hidden * if self.tie_word_embeddings { 1 } else { 2 };
        embeddings + wide(self.num_hidden_layers) * layer + hidden
    }

    /// Refuses sizes whose products are those of no model.
    fn check_products(&self) -> Parsed<()> {
        let (heads, width) = (self.num_attention_heads, self.head_dim);
        if heads.saturating_mul(width) > MOST_WIDTH {
            return Err(format!(
                "num_attention_heads {heads} times head_dim {width} must be at most {MOST_WIDTH}, as the width of queries"
            ));
        }
        let (parameters, Self { hidden_size, intermediate_size, num_hidden_layers, vocab_size, .. }) =
            (self.all_parameters(), self);
        if parameters > MOST_PARAMETERS {
            return Err(format!(
                "num_hidden_layers {num_hidden_layers}, hidden_size {hidden_size}, intermediate_size {intermediate_size} \
                 and vocab_size {vocab_size} make {parameters} parameters, expected at most {MOST_PARAMETERS}"
            ));
        }
        Ok(())
    }

    pub fn heads(&self) -> Heads {
        Heads { query: self.num_attention_heads, key: self.num_key_value_heads, width: self.head_dim }
    }

    /// # Errors
    /// If the file is missing, is not JSON, lacks a field, or asks for something that the decoder does not support.
    pub fn load(folder: &Path) -> Result<Self> {
        load(folder, Self::parse)
    }

    /// Parses a `config.json`. The error names the wrong field and the supported values.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let config = json(text)?;
        let fields = Fields::of(&config)?;
        let family = family(&fields)?;
        let mut notes = fields.unknown(&[READ, HARMLESS].concat())?;
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
                (None, _) => {
                    return Err(format!("hidden_size {hidden_size} is not divisible by num_attention_heads {heads}"));
                }
            },
            max_position_embeddings: plain_window(&fields, family, max_position_embeddings, &mut notes)?,
            rms_norm_eps: fields.required("rms_norm_eps", Fields::number)?,
            rope: RopeConfig::parse(&fields, family, max_position_embeddings)?,
            // All four families omit the field if the output layer has its own weights.
            tie_word_embeddings: fields.flag("tie_word_embeddings")?.unwrap_or(false),
            qkv_bias: family == Family::Qwen2 || attention_bias,
            output_bias: attention_bias,
            notes,
        };
        let (key_heads, width) = (config.num_key_value_heads, config.head_dim);
        if !heads.is_multiple_of(key_heads) {
            return Err(format!("num_attention_heads {heads} is not divisible by num_key_value_heads {key_heads}"));
        }
        if !width.is_multiple_of(2) {
            return Err(format!("head_dim must be even for rotary positions, found {width}"));
        }
        config.check_products()?;
        Ok(config)
    }
}

fn family(fields: &Fields) -> Parsed<Family> {
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

fn refuse_unsupported(fields: &Fields, family: Family) -> Parsed<()> {
    let activation = fields.required("hidden_act", Fields::text)?;
    if activation != "silu" {
        return Err(format!("hidden_act '{activation}' is not supported: expected silu"));
    }
    if fields.flag("mlp_bias")? == Some(true) {
        return Err("mlp_bias is not supported: expected false".to_string());
    }
    // `activation` must agree with `hidden_act`: a gated MLP with SiLU.
    if let Some(other) = fields.text("activation")?.filter(|name| !["swiglu", "silu"].contains(name)) {
        return Err(format!("activation '{other}' is not supported: expected swiglu or silu"));
    }
    if matches!(family, Family::Qwen2 | Family::Mistral) && fields.flag("attention_bias")? == Some(true) {
        return Err(format!(
            "attention_bias true is not supported for {family:?}: expected false or no attention_bias"
        ));
    }
    let known = ["full_attention", "sliding_attention"];
    if let Some(kind) = fields.texts("layer_types")?.and_then(|all| all.into_iter().find(|kind| !known.contains(kind)))
    {
        return Err(format!("layer_types '{kind}' is not supported: expected {}", known.join(" or ")));
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

/// Returns the length up to which attention is plain: a sliding window and chunks have no effect until they are full.
fn plain_window(fields: &Fields, family: Family, window: usize, notes: &mut Vec<String>) -> Parsed<usize> {
    let slides = fields.texts("layer_types")?.is_some_and(|kinds| kinds.contains(&"sliding_attention"));
    let in_use = match family {
        Family::Qwen2 | Family::Qwen3 => slides || fields.flag("use_sliding_window")? == Some(true),
        Family::Llama | Family::Mistral => true,
    };
    let sliding = fields.length("sliding_window")?.filter(|_| in_use);
    if slides && sliding.is_none() {
        return Err("layer_types has 'sliding_attention', but sliding_window is missing".to_string());
    }
    let chunks = fields.object("dual_chunk_attention_config", "dual_chunk_attention_config.")?;
    let chunk = chunks.map(|chunks| chunks.required("original_max_position_embeddings", Fields::count)).transpose()?;
    let mut plain = window;
    for (key, limit) in [("sliding_window", sliding), ("dual_chunk_attention_config", chunk)] {
        if let Some(limit) = limit.filter(|limit| *limit < plain) {
            notes.push(format!(
                "{key}: chains may have {limit} tokens, not {window}: longer ones need sliding or chunked attention"
            ));
            plain = limit;
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, check_configs, golden, lines};
    use serde_json::{Value, json};

    #[test]
    fn a_config_is_understood_or_refused_by_name() {
        check_configs("decoder_configs.jsonl", ModelConfig::parse, |config| format!("{config:?}"));
    }

    #[test]
    fn any_family_has_its_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = |config: Value| {
            std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
            Limits::load(folder.path()).map_err(|error| error.to_string())
        };
        let own = json!({"model_type": "phi3", "vocab_size": 7, "max_position_embeddings": 9});
        assert_eq!(sizes(own.clone()).unwrap(), Limits { window: 9, vocabulary: 7 });
        assert_eq!(sizes(json!({"text_config": own})).unwrap(), Limits { window: 9, vocabulary: 7 });
        let error = sizes(json!({"text_config": {"vocab_size": 7}})).unwrap_err();
        assert!(error.contains("text_config.max_position_embeddings is missing"), "{error}");
        for key in ["hidden_size", "num_experts", "max_position_embeddings", "vocab_size"] {
            let error = sizes(changed(own.clone(), &json!({ key: 10_000_000_000_u64 }))).unwrap_err();
            assert!(
                error.contains("config.json: ") && error.contains(key) && error.contains("at most 16777216"),
                "{error}"
            );
        }
    }

    #[test]
    fn both_styles_of_a_file_are_one_config() {
        for model in ["qwen2", "llama", "qwen3", "mistral", "yarn", "linear"] {
            let old_style = std::fs::read_to_string(golden(model).join("config.v4.json")).unwrap();
            assert_eq!(ModelConfig::parse(&old_style).unwrap(), ModelConfig::load(&golden(model)).unwrap(), "{model}");
        }
    }

    /// A line of `tests/goldens/configs.jsonl`: a published config, the number of its parameters if it is known, and
    /// the expected text of its error.
    #[derive(serde::Deserialize)]
    struct Published {
        name: String,
        refused: Option<String>,
        parameters: Option<u64>,
        config: String,
    }

    #[test]
    fn published_configs_of_supported_families_load_and_errors_for_others_name_what_they_need() {
        for Published { name, refused, parameters, config } in lines(golden("configs.jsonl")) {
            match (ModelConfig::parse(&config), refused) {
                (Ok(config), None) => {
                    let found = config.parameters();
                    assert_eq!(found, parameters.unwrap_or(found), "{name}");
                }
                (Err(error), Some(why)) => assert!(error.contains(&why), "{name}: {error}"),
                (found, why) => panic!("{name}: {found:?}, expected {why:?}"),
            }
        }
    }
}
