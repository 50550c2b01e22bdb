//! Writes a model folder in Hugging Face's layout.

use std::path::Path;

use serde_json::{Value, json};

use super::bpe::{END, SEPARATOR, START};
use crate::{LmError, Result, Tokenizer};

fn chat_template() -> String {
    format!(
        "{{% for message in messages %}}{START}{{{{ message.role }}}}\n{{{{ message.content }}}}{END}\n{{% endfor %}}\
         {{% if add_generation_prompt %}}{START}assistant\n{{% endif %}}"
    )
}

/// Writes `config.json`, `generation_config.json` and `tokenizer_config.json` next to the `tokenizer.json` of
/// [`train_tokenizer`](super::train_tokenizer): the passed config with the ids of the special tokens, ChatML as chat
/// template, and the end of a turn as the end of a text.
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
        std::fs::write(&path, format!("{value:#}\n")).map_err(LmError::writing(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::ModelConfig;
    use crate::testing::golden;
    use crate::train::train_tokenizer;
    use tempfile::TempDir;

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
