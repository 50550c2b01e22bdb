//! The base of a training: an existing model, or a new one from a config, with a tokenizer trained on the rows.

use std::path::{Path, PathBuf};

use asap_kernels::tags;
use asap_lm::config::ModelConfig;
use asap_lm::decoder::Decoder;
use asap_lm::train::{self, Precision, random};
use asap_lm::{LmError, fingerprint, locate};
use asap_pipelines::corpus::Corpus;
use datafusion::arrow::array::AsArray;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::Request;
use super::store::Folder;
use crate::failure::Failure;
use crate::rows;

const MADE: [&str; 4] = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"];

pub(super) struct Base {
    pub folder: PathBuf,
    pub config: ModelConfig,
    pub precision: Precision,
    pub name: String,
    pub hash: String,
    new: Option<u64>,
    _made: Option<TempDir>,
}

impl Base {
    pub(super) async fn find(
        args: &Request,
        context: &SessionContext,
        out: &Folder,
        is_started: bool,
    ) -> Result<Self, Failure> {
        let (folder, name, hash, new, made) = match (&args.model, &args.init) {
            (Some(model), _) => {
                let folder = locate(model)?;
                let hash = fingerprint(&folder)?;
                (folder, model.clone(), hash, None, None)
            }
            (None, Some(init)) => {
                let (given, hash) = config(init)?;
                let made = match is_started {
                    true => kept(out).await?,
                    false => made(args, context, &given).await?,
                };
                (made.path().to_path_buf(), init.display().to_string(), hash, Some(args.seed), Some(made))
            }
            (None, None) => return Err(Failure::Usage("name a model (--model) or a config (--init)".to_string())),
        };
        let config = ModelConfig::load(&folder)?;
        let given = read_json(&folder.join("config.json"))?;
        let precision = match new {
            Some(_) => Precision::of(&given).map_err(Failure::Usage)?,
            None => Precision::of_model(&folder, &given)?,
        };
        Ok(Self { folder, config, precision, name, hash, new, _made: made })
    }

    /// The metadata of the model card for the Hub; empty for a new model.
    pub(crate) fn front_matter(&self) -> String {
        match self.new {
            Some(_) => String::new(),
            None => format!("---\nbase_model: {}\n---\n\n", json!(self.name)),
        }
    }

    pub(super) fn decoder(&self) -> Result<Decoder, Failure> {
        Ok(match self.new {
            Some(seed) => Decoder::new(self.config.clone(), random::weights(&self.config, seed)?),
            None => Decoder::load(&self.folder)?,
        })
    }

    /// Writes the tokenizer and configs of a new model to its folder: later rows would give another tokenizer.
    pub(super) async fn keep(&self, out: &Folder) -> Result<(), Failure> {
        for name in MADE.iter().filter(|_| self.new.is_some()) {
            out.write(name, std::fs::read(self.folder.join(name))?).await?;
        }
        Ok(())
    }

    pub(crate) fn other_files(&self) -> Result<Vec<PathBuf>, Failure> {
        /// The endings of files with weights, and of their indexes without `.index.json`.
        const WEIGHTS: [&str; 9] = [".safetensors", ".bin", ".pth", ".pt", ".gguf", ".onnx", ".h5", ".msgpack", ".ot"];
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let indexed = name.trim_end_matches(".index.json");
            let is_weight = WEIGHTS.iter().any(|ending| indexed.ends_with(ending));
            if path.is_file() && !is_weight && !name.starts_with('.') {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// The generation config of the base, with `end` as the first end token.
    pub(super) fn generation_config(&self, end: u32) -> Result<Value, Failure> {
        let path = self.folder.join("generation_config.json");
        let mut config = if path.exists() { read_json(&path)? } else { json!({}) };
        let held = match &config["eos_token_id"] {
            Value::Array(ids) => ids.clone(),
            Value::Null => vec![],
            id => vec![id.clone()],
        };
        let others = held.into_iter().filter(|id| *id != json!(end));
        config["eos_token_id"] = std::iter::once(json!(end)).chain(others).collect();
        Ok(config)
    }
}

fn config(path: &Path) -> Result<(Value, String), Failure> {
    let wrong = |found: String| Failure::Usage(format!("{}: {found}", path.display()));
    if path.is_dir() {
        return Err(wrong(format!("expected a config, found a folder: pass {}", path.join("config.json").display())));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    ModelConfig::parse(&text).map_err(wrong)?;
    let given: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    Precision::of(&given).map_err(wrong)?;
    Ok((given, format!("{:x}", Sha256::digest(&text))))
}

fn read_json(path: &Path) -> Result<Value, Failure> {
    let text = std::fs::read(path).map_err(|source| LmError::Read { path: path.to_path_buf(), source })?;
    serde_json::from_slice(&text).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

/// Makes a folder with a new model's tokenizer, trained on the rows, and its configs.
async fn made(args: &Request, context: &SessionContext, given: &Value) -> Result<TempDir, Failure> {
    let vocabulary = given["vocab_size"].as_u64().unwrap_or_default() as usize;
    let (folder, texts) = (tempfile::tempdir()?, texts(args, context).await?);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    train::train_tokenizer(&texts, vocabulary, folder.path())?;
    train::write_configs(given, folder.path())?;
    Ok(folder)
}

async fn kept(out: &Folder) -> Result<TempDir, Failure> {
    let folder = tempfile::tempdir()?;
    for name in MADE {
        let Some(bytes) = out.read(name).await? else {
            return Err(Failure::Failed(format!("{} lacks {name}: start again in a new folder", out.shown())));
        };
        std::fs::write(folder.path().join(name), bytes)?;
    }
    Ok(folder)
}

/// The texts to train a tokenizer on, in the order of the files and their rows.
async fn texts(args: &Request, context: &SessionContext) -> Result<Vec<String>, Failure> {
    let corpus = Corpus::open(&context.state(), &args.data, args.columns.as_ref()).await?;
    let columns = ["question", "cot", "answer", "status"].map(rows::text);
    let mut batches = rows::in_order(context, &corpus, columns).await?;
    let mut texts = Vec::new();
    while let Some(batch) = batches.try_next().await? {
        let [questions, cots, answers, rejected] = [2, 3, 4, 5].map(|column| batch.column(column).as_string_view());
        for (((question, cot), answer), rejected) in questions.iter().zip(cots).zip(answers).zip(rejected) {
            let (Some(question), Some(cot), None) = (question, cot, rejected) else { continue };
            texts.extend([question.to_string(), tags::wrap(cot, answer.unwrap_or_default())]);
        }
    }
    Ok(texts)
}
