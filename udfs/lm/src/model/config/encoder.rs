//! Parses `config.json` of an encoder for token classification.

use std::path::Path;

use serde_json::{Map, Value};

use super::HARMLESS;
use super::fields::{Fields, Parsed, json};
use crate::Result;

/// Encoder architectures. They share one forward pass and differ in the first position and in their word marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncoderFamily {
    /// XLM-RoBERTa: SentencePiece tokens; positions begin after that of the padding token.
    XlmRoberta,
    Bert,
}

impl EncoderFamily {
    const ALL: [(Self, &str, &str); 2] = [
        (Self::XlmRoberta, "xlm-roberta", "XLMRobertaForTokenClassification"),
        (Self::Bert, "bert", "BertForTokenClassification"),
    ];
}

/// The shape of an encoder that assigns each token one of two labels, with the field names of `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderConfig {
    pub family: EncoderFamily,
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub max_position_embeddings: usize,
    /// Rows of the token type table; only the first is used.
    pub type_vocab_size: usize,
    pub layer_norm_eps: f64,
    pub pad_token_id: u32,
    /// Notes on unknown fields that do not change the result.
    pub notes: Vec<String>,
}

const READ: &str = "
    add_cross_attention architectures dtype hidden_act hidden_size id2label intermediate_size is_decoder
    layer_norm_eps max_position_embeddings model_type num_attention_heads num_hidden_layers pad_token_id
    position_embedding_type tie_word_embeddings torch_dtype type_vocab_size vocab_size";

/// Additional keys that do not affect a trained encoder.
const HARMLESS_TO_ENCODERS: &str = "
    attention_probs_dropout_prob classifier_dropout directionality gradient_checkpointing hidden_dropout_prob
    output_past pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type";

impl EncoderConfig {
    pub(crate) fn load(folder: &Path) -> Result<Self> {
        super::load(folder, Self::parse)
    }

    pub(crate) fn parse(text: &str) -> Parsed<Self> {
        let config = json(text)?;
        let fields = Fields::of(&config)?;
        let family = family(&fields)?;
        let notes = fields.unknown(&[READ, HARMLESS, HARMLESS_TO_ENCODERS].concat())?;
        refuse_unsupported(&fields)?;
        let config = Self {
            family,
            vocab_size: fields.required("vocab_size", Fields::count)?,
            hidden_size: fields.required("hidden_size", Fields::count)?,
            intermediate_size: fields.required("intermediate_size", Fields::count)?,
            num_hidden_layers: fields.required("num_hidden_layers", Fields::count)?,
            num_attention_heads: fields.required("num_attention_heads", Fields::count)?,
            max_position_embeddings: fields.required("max_position_embeddings", Fields::count)?,
            type_vocab_size: fields.required("type_vocab_size", Fields::count)?,
            layer_norm_eps: fields.required("layer_norm_eps", Fields::number)?,
            // The default is that of transformers.
            pad_token_id: fields.id("pad_token_id")?.unwrap_or(if family == EncoderFamily::XlmRoberta { 1 } else { 0 }),
            notes,
        };
        let (heads, hidden) = (config.num_attention_heads, config.hidden_size);
        if !hidden.is_multiple_of(heads) {
            return Err(format!("hidden_size {hidden} is not divisible by num_attention_heads {heads}"));
        }
        if config.pad_token_id as usize >= config.vocab_size {
            return Err(format!("pad_token_id {} must be below vocab_size {}", config.pad_token_id, config.vocab_size));
        }
        Ok(config)
    }

    pub(crate) fn window(&self) -> usize {
        self.max_position_embeddings.saturating_sub(self.first_position())
    }

    pub(crate) fn first_position(&self) -> usize {
        match self.family {
            EncoderFamily::XlmRoberta => self.pad_token_id as usize + 1,
            EncoderFamily::Bert => 0,
        }
    }
}

/// Both `model_type` and the architecture must match: the first names the model, the second its task.
fn family(fields: &Fields) -> Parsed<EncoderFamily> {
    let model_type = fields.text("model_type")?.unwrap_or_default();
    let named = fields.texts("architectures")?.unwrap_or_default();
    let known = EncoderFamily::ALL
        .into_iter()
        .find(|(_, name, architecture)| *name == model_type && named.contains(architecture));
    let labels = fields.get("id2label").and_then(Value::as_object).map_or(2, Map::len);
    match known {
        Some((family, ..)) if labels == 2 => Ok(family),
        _ => Err(format!(
            "expected a token classifier with 2 labels, model_type xlm-roberta or bert and architectures \
             XLMRobertaForTokenClassification or BertForTokenClassification; found model_type '{model_type}', architectures \
             {named:?}, {labels} labels: name the folder of an LLMLingua-2 model, such as \
             microsoft/llmlingua-2-xlm-roberta-large-meetingbank"
        )),
    }
}

fn refuse_unsupported(fields: &Fields) -> Parsed<()> {
    for (key, expected) in [("hidden_act", "gelu"), ("position_embedding_type", "absolute")] {
        if let Some(found) = fields.text(key)?.filter(|found| *found != expected) {
            return Err(format!("{key} '{found}' is not supported: expected {expected}"));
        }
    }
    for key in ["is_decoder", "add_cross_attention"] {
        if fields.flag(key)? == Some(true) {
            return Err(format!("{key} is not supported: expected false"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_configs;

    #[test]
    fn a_config_is_understood_or_refused_by_name() {
        check_configs("encoder_configs.jsonl", EncoderConfig::parse, |config| {
            format!("first_position {}, window {}, {config:?}", config.first_position(), config.window())
        });
    }
}
