//! A model's folder in Hugging Face's layout.

use std::collections::HashMap;
use std::path::Path;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use super::bpe::{END, SEPARATOR, START};
use crate::ops::read;
use crate::weights::Weights;
use crate::{LmError, Result, Tokenizer};

/// ChatML: every turn between two tokens, its first line the role.
fn chat_template() -> String {
    format!(
        "{{% for message in messages %}}{START}{{{{ message.role }}}}\n{{{{ message.content }}}}{END}\n{{% endfor %}}\
         {{% if add_generation_prompt %}}{START}assistant\n{{% endif %}}"
    )
}

/// Writes `config.json`, `generation_config.json` and `tokenizer_config.json` beside a `tokenizer.json` that
/// [`train_tokenizer`](super::train_tokenizer) made: the given config with the ids of the special tokens, ChatML as chat
/// template, and the end of a turn as the end of a text.
///
/// # Errors
/// If the config is not a JSON object or a file cannot be read or written.
pub fn write_configs(config: &Value, folder: &Path) -> Result<()> {
    let tokenizer = Tokenizer::load(folder)?;
    let end = tokenizer.encode(END, false)?.ids;
    let separator = tokenizer.encode(SEPARATOR, false)?.ids;
    let mut config = config.clone();
    config["bos_token_id"] = Value::Null;
    config["eos_token_id"] = json!(end[0]);
    config["pad_token_id"] = json!(separator[0]);
    let generation = json!({ "eos_token_id": [end[0], separator[0]], "pad_token_id": separator[0] });
    let tokenizer = json!({
        "bos_token": null,
        "chat_template": chat_template(),
        "clean_up_tokenization_spaces": false,
        "eos_token": END,
        "model_max_length": config["max_position_embeddings"],
        "pad_token": SEPARATOR,
        "tokenizer_class": "PreTrainedTokenizerFast",
    });
    let files = [("config.json", config), ("generation_config.json", generation), ("tokenizer_config.json", tokenizer)];
    for (name, value) in files {
        let path = folder.join(name);
        std::fs::write(&path, format!("{value:#}\n")).map_err(|source| LmError::Write { path, source })?;
    }
    Ok(())
}

/// How numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 4 bytes.
    F32,
    /// 2 bytes, 11 significant bits.
    F16,
    /// 2 bytes, 8 significant bits.
    Bf16,
}

impl Precision {
    /// What `dtype` (or `torch_dtype`, as older files call it) of a config.json asks for; f32 where it says nothing.
    ///
    /// # Errors
    /// If it asks for something else.
    pub fn of(config: &Value) -> std::result::Result<Self, String> {
        match config.get("dtype").or_else(|| config.get("torch_dtype")).and_then(Value::as_str) {
            None | Some("float32") => Ok(Self::F32),
            Some("float16") => Ok(Self::F16),
            Some("bfloat16") => Ok(Self::Bf16),
            Some(other) => Err(format!("dtype '{other}' is not supported: expected float32, float16 or bfloat16")),
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::BF16,
        }
    }

    fn bytes(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
            Self::Bf16 => values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        }
    }
}

/// Writes `model.safetensors` to a folder.
///
/// # Errors
/// If the file cannot be written.
pub fn write_weights(weights: &Weights, precision: Precision, folder: &Path) -> Result<()> {
    let path = folder.join("model.safetensors");
    let named = weights.named();
    let tensors = named.iter().map(|(name, tensor)| {
        let bytes = read([tensor], |[values]| precision.bytes(values))?;
        Ok((name.clone(), tensor.dims().to_vec(), bytes))
    });
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = tensors.collect::<Result<_>>()?;
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(precision.dtype(), shape.clone(), bytes)?)));
    // Readers in Python refuse a file that does not say so.
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    let file = views
        .collect::<std::result::Result<Vec<_>, _>>()
        .and_then(|views| safetensors::serialize(views, Some(metadata)))
        .map_err(candle_core::Error::from)?;
    std::fs::write(&path, file).map_err(|source| LmError::Write { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ModelConfig;
    use crate::testing::golden;
    use crate::train::train_tokenizer;
    use tempfile::TempDir;

    #[test]
    fn what_is_written_is_read_again() {
        let config = ModelConfig::load(&golden("qwen2")).unwrap();
        let weights = Weights::load(&golden("qwen2"), &config).unwrap();
        for (precision, tolerance) in [(Precision::F32, 0.0), (Precision::F16, 1e-3), (Precision::Bf16, 4e-3)] {
            let folder = TempDir::new().unwrap();
            write_weights(&weights, precision, folder.path()).unwrap();
            let found = Weights::load(folder.path(), &config).unwrap();
            for ((name, expected), (_, found)) in weights.named().into_iter().zip(found.named()) {
                let largest = expected.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
                let difference = (expected - found).unwrap().abs().unwrap().max_all().unwrap();
                let difference = difference.to_scalar::<f32>().unwrap();
                assert!(difference <= tolerance * largest, "{name} {precision:?}: {difference}");
            }
        }
    }

    #[test]
    fn configs_name_the_special_tokens() {
        let folder = TempDir::new().unwrap();
        train_tokenizer(&["some text, some text"], 300, folder.path()).unwrap();
        let given = std::fs::read_to_string(golden("qwen2").join("config.json")).unwrap();
        write_configs(&serde_json::from_str(&given).unwrap(), folder.path()).unwrap();
        let file = |name: &str| -> Value {
            serde_json::from_slice(&std::fs::read(folder.path().join(name)).unwrap()).unwrap()
        };
        let tokenizer = Tokenizer::load(folder.path()).unwrap();
        let end = tokenizer.encode(END, false).unwrap().ids[0];
        assert_eq!(file("config.json")["eos_token_id"], end);
        assert_eq!(file("generation_config.json")["eos_token_id"][0], end);
        assert_eq!(file("tokenizer_config.json")["model_max_length"], 4096);
        assert!(ModelConfig::load(folder.path()).is_ok());
    }
}
