//! The models of a session, loaded by its settings.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use asap_kernels::front_end::Setting;
use asap_kernels::memo::Memory;
use asap_lm::compressor::Compressor;
use asap_lm::example::ExampleTemplate;
use asap_lm::{Dtype, LmError, LoadedModel, PromptTemplate, Scorer, TokenCount, Tokenizer};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_err};
use parking_lot::Mutex;

use crate::losses::Losses;
use crate::scorers;
use crate::settings::{CompressorBackend, Devices, ScorerBackend, Settings};

const COMPRESSOR: Setting<'_> = Setting("asap.compressor.model");
const ENCODERS: &str =
    "an XLM-RoBERTa or BERT that labels tokens, such as microsoft/llmlingua-2-xlm-roberta-large-meetingbank";

/// The scoring model of a session with its tokenizer, loaded on first use and shared by all functions. The model of the
/// latest settings is kept; others are kept while a query uses them.
#[derive(Debug, Clone, Default)]
pub struct Models {
    loaded: Arc<Mutex<Loaded>>,
    memory: Arc<Memory>,
    losses: Losses,
}

/// The value that was loaded last, and all values that queries still use, by key.
#[derive(Debug)]
struct Slot<K, V> {
    last: Option<Arc<V>>,
    in_use: Vec<(K, Weak<V>)>,
}

impl<K, V> Default for Slot<K, V> {
    fn default() -> Self {
        Self { last: None, in_use: Vec::new() }
    }
}

impl<K: PartialEq, V> Slot<K, V> {
    /// Returns the value of this key unless it is over, or loads it. The last value is let go before: memory may be too
    /// small for two models.
    fn get_or_load(
        &mut self,
        key: K,
        is_over: impl Fn(&V) -> bool,
        load: impl FnOnce() -> asap_lm::Result<V>,
    ) -> asap_lm::Result<Arc<V>> {
        let in_use = self.in_use.iter().filter(|(of, _)| *of == key);
        if let Some(value) = in_use.filter_map(|(_, value)| value.upgrade()).find(|value| !is_over(value)) {
            return Ok(value);
        }
        self.last = None;
        self.in_use.retain(|(_, value)| value.strong_count() > 0);
        let value = Arc::new(load()?);
        self.in_use.push((key, Arc::downgrade(&value)));
        self.last = Some(Arc::clone(&value));
        Ok(value)
    }
}

/// Tokens that models would have read.
#[derive(Debug, Default)]
struct Counted {
    scorer: Arc<TokenCount>,
    encoder: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Loaded {
    counted: Option<Counted>,
    tokenizer: Slot<PathBuf, Tokenizer>,
    prompt: Slot<(PathBuf, Option<String>), PromptTemplate>,
    examples: Slot<(PathBuf, Option<String>), ExampleTemplate>,
    compressor: Slot<(PathBuf, CompressorBackend, Option<Devices>, String), Compressor>,
    model: Slot<ModelKey, LoadedModel>,
    scorer: Slot<(ModelKey, Option<String>), Scorer>,
}

/// The settings that a scoring model is loaded by.
#[derive(Debug, Clone, PartialEq)]
struct ModelKey {
    folder: PathBuf,
    backend: ScorerBackend,
    devices: Option<Devices>,
    dtype: Option<Dtype>,
    python: String,
    server: [Option<String>; 3],
}

impl ModelKey {
    fn of(folder: &Path, settings: &Settings) -> Self {
        Self {
            folder: folder.to_path_buf(),
            backend: settings.scorer_backend,
            devices: settings.scorer_device.clone(),
            dtype: settings.scorer_dtype,
            python: settings.scorer_python.clone(),
            server: [&settings.scorer_base_url, &settings.scorer_served_model, &settings.scorer_api_key_env]
                .map(Clone::clone),
        }
    }
}

pub fn failed(error: LmError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn tokenizer_in(
    slot: &mut Slot<PathBuf, Tokenizer>,
    folder: &Path,
    memory: &Arc<Memory>,
) -> asap_lm::Result<Arc<Tokenizer>> {
    slot.get_or_load(folder.to_path_buf(), |_| false, || Tokenizer::load_within(folder, memory))
}

fn warn_of(folder: &Path, notes: &[String]) {
    for note in notes {
        tracing::warn!("{}: {note}", folder.join("config.json").display());
    }
}

impl Models {
    /// Creates models that read nothing: [`Models::counted`] is the number of tokens they would have read, and scores
    /// are 0.
    pub fn counting() -> Self {
        let loaded = Loaded { counted: Some(Counted::default()), ..Loaded::default() };
        Self { loaded: Arc::new(Mutex::new(loaded)), ..Self::default() }
    }

    /// Returns the tokens that the scoring model of [`Models::counting`] would have read; 0 for other models.
    pub fn counted(&self) -> u64 {
        self.loaded.lock().counted.as_ref().map_or(0, |tokens| tokens.scorer.all.load(Ordering::Relaxed))
    }

    /// The part of [`Models::counted`] that the scoring model would write, at most.
    pub fn counted_written(&self) -> u64 {
        self.loaded.lock().counted.as_ref().map_or(0, |tokens| tokens.scorer.written.load(Ordering::Relaxed))
    }

    /// As [`Models::counted`], of the encoder that compresses texts.
    pub fn counted_of_encoder(&self) -> u64 {
        self.loaded.lock().counted.as_ref().map_or(0, |tokens| tokens.encoder.load(Ordering::Relaxed))
    }

    /// Returns the tokenizer of the scoring model (`asap.scorer.model`).
    ///
    /// # Errors
    /// If it cannot be loaded. The error names the setting, the folder and the problem.
    pub fn tokenizer(&self, config: &ConfigOptions) -> Result<Arc<Tokenizer>> {
        let load = |loaded: &mut Loaded, folder: &Path, memory: &Arc<Memory>| {
            tokenizer_in(&mut loaded.tokenizer, folder, memory)
        };
        self.load(Settings::of(config)?, Settings::scorer_tokenizer, load)
    }

    /// Returns the prompt before chains (`asap.scorer.prompt`). Fails as [`Models::tokenizer`].
    pub fn prompt(&self, config: &ConfigOptions) -> Result<Arc<PromptTemplate>> {
        let settings = Settings::of(config)?;
        let prompt = settings.scorer_prompt.as_deref();
        self.load(settings, Settings::scorer_tokenizer, |loaded, folder, _| {
            let key = (folder.to_path_buf(), prompt.map(str::to_string));
            loaded.prompt.get_or_load(key, |_| false, || PromptTemplate::load(folder, prompt))
        })
    }

    /// Returns the template that turns rows into training examples. Fails as [`Models::tokenizer`].
    pub fn examples(&self, config: &ConfigOptions) -> Result<Arc<ExampleTemplate>> {
        let settings = Settings::of(config)?;
        self.examples_by(settings, settings.scorer_prompt.as_deref())
    }

    /// Returns the template of a model's own training examples, whatever `asap.scorer.prompt` is. Fails as
    /// [`Models::tokenizer`].
    pub fn student_examples(&self, config: &ConfigOptions) -> Result<Arc<ExampleTemplate>> {
        self.examples_by(Settings::of(config)?, None)
    }

    fn examples_by(&self, settings: &Settings, prompt: Option<&str>) -> Result<Arc<ExampleTemplate>> {
        self.load(settings, Settings::scorer_tokenizer, |Loaded { tokenizer, examples, .. }, folder, memory| {
            let load = || ExampleTemplate::load(folder, prompt, &*tokenizer_in(tokenizer, folder, memory)?);
            examples.get_or_load((folder.to_path_buf(), prompt.map(str::to_string)), |_| false, load)
        })
    }

    /// Returns the scoring model with its backend and prompt (`asap.scorer.*`). Fails as [`Models::tokenizer`].
    pub fn scorer(&self, config: &ConfigOptions) -> Result<Arc<Scorer>> {
        let settings = Settings::of(config)?;
        let is_counted = self.loaded.lock().counted.is_some();
        let find = if is_counted { Settings::scorer_tokenizer } else { Settings::scorer_folder };
        self.load(settings, find, |Loaded { counted, tokenizer, model, scorer, .. }, folder, memory| {
            let (key, prompt) = (ModelKey::of(folder, settings), settings.scorer_prompt.as_deref());
            scorer.get_or_load((key.clone(), prompt.map(str::to_string)), Scorer::is_over, || {
                let tokenizer = tokenizer_in(tokenizer, folder, memory)?;
                let model = model.get_or_load(key, LoadedModel::is_over, || {
                    let model = match counted {
                        Some(tokens) => LoadedModel::counted(folder, Arc::clone(&tokens.scorer), &tokenizer, memory)?,
                        None => scorers::open(folder, settings, &tokenizer, memory)?,
                    };
                    warn_of(folder, model.notes());
                    Ok(model)
                })?;
                Scorer::new(folder, prompt, tokenizer, model, memory)
            })
        })
    }

    /// Returns the encoder that compresses texts (`asap.compressor.model`). Fails if it is not set or cannot be loaded.
    pub fn compressor(&self, config: &ConfigOptions) -> Result<Arc<Compressor>> {
        let settings = Settings::of(config)?;
        let Some(named) = &settings.compressor_model else {
            return config_err!(
                "{COMPRESSOR} is not set: set it to a folder, or to org/name on the Hugging Face Hub, with {ENCODERS}"
            );
        };
        let load = |folder: PathBuf| {
            let (backend, devices) = (settings.compressor_backend, settings.compressor_device.clone());
            let key = (folder.clone(), backend, devices, settings.scorer_python.clone());
            let Loaded { counted, compressor, .. } = &mut *self.loaded.lock();
            let load = || {
                let compressor = match counted {
                    Some(tokens) => Compressor::counted(&folder, Arc::clone(&tokens.encoder))?,
                    None => scorers::open_encoder(&folder, settings)?,
                };
                warn_of(&folder, compressor.notes());
                Ok(compressor)
            };
            compressor.get_or_load(key, |_| false, load)
        };
        settings.apply_hub();
        asap_lm::locate_folder(named).and_then(load).map_err(|error| match error {
            LmError::Unavailable(_) | LmError::Write { .. } | LmError::Abandoned => failed(error),
            LmError::Backend(what) => config_datafusion_err!("{what}"),
            error => config_datafusion_err!(
                "{COMPRESSOR} = '{named}': {error} (expected a folder with config.json, tokenizer.json and \
                 model.safetensors of {ENCODERS})"
            ),
        })
    }

    /// Returns why chains have no score.
    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Returns the cache of tokenized and scored rows.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn load<T>(
        &self,
        settings: &Settings,
        find: impl FnOnce(&Settings) -> asap_lm::Result<PathBuf>,
        load: impl FnOnce(&mut Loaded, &Path, &Arc<Memory>) -> asap_lm::Result<T>,
    ) -> Result<T> {
        self.memory.limit(settings.cache_memory.0);
        let named = &settings.scorer_model;
        let mut loaded = self.loaded.lock();
        find(settings).and_then(|folder| load(&mut loaded, &folder, &self.memory)).map_err(|error| match error {
            LmError::Unavailable(_) | LmError::Write { .. } => failed(error),
            LmError::Backend(what) => config_datafusion_err!("{what}"),
            error => config_datafusion_err!("{} = '{named}': {error}", Setting("asap.scorer.model")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_has_ended_is_not_given_to_the_next_query_though_one_still_holds_it() {
        let mut slot = Slot::<u8, AtomicBool>::default();
        let mut get = || {
            let found = slot.get_or_load(1, |is_over| is_over.load(Ordering::Relaxed), || Ok(AtomicBool::new(false)));
            found.unwrap()
        };
        let first = get();
        assert!(Arc::ptr_eq(&first, &get()));
        first.store(true, Ordering::Relaxed);
        let second = get();
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &get()));
    }
}
