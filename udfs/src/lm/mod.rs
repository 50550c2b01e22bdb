//! The language model: everything between a folder in Hugging Face's layout and a score.

mod byte_level;
pub mod config;
#[cfg(feature = "cuda")]
pub mod cuda;
mod cuts;
pub mod decoder;
mod fingerprint;
pub mod generate;
mod joined;
pub mod ops;
pub mod output;
mod pass;
mod prompt;
pub mod rope;
mod row;
pub mod sampling;
mod scorer;
#[cfg(test)]
pub(crate) mod testing;
mod thread;
mod tokenizer;
pub mod train;
pub mod weights;

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::config::ConfigOptions;
#[cfg(not(feature = "cuda"))]
use datafusion::common::config_err;
use datafusion::common::{DataFusionError, config_datafusion_err};

use crate::settings::{ScorerDevice, ScorerDtype, Settings};
pub use fingerprint::{fingerprint, model_files};
pub use joined::Joined;
pub use prompt::{Message, PromptTemplate};
pub use row::{Scores, Wanted};
use scorer::LoadedModel;
pub use scorer::{Prepared, QuestionAndSteps, Scored, Scorer};
pub use tokenizer::{Chain, Encoded, Tokenizer};

/// What can go wrong with a model, with the file or setting that it is about.
#[derive(Debug, thiserror::Error)]
pub enum LmError {
    /// A file of the model's folder is missing or cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: std::io::Error,
    },
    /// A file of a new model's folder cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why it cannot be written.
        source: std::io::Error,
    },
    /// A file of the model's folder holds something that is not supported or does not fit the rest.
    #[error("{}: {found}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What was found in it and what was expected.
        found: String,
    },
    /// A conversation leaves no room for an answer.
    #[error("{tokens} tokens with the chat template, the model's window is {window}")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that the model can read at once.
        window: usize,
    },
    /// A chat template fails on a conversation.
    #[error("the model's chat template: {0}")]
    Prompt(String),
    /// A text could not be tokenised.
    #[error("the tokenizer failed: {0}")]
    Tokenize(String),
    /// The model's thread has ended or could not answer.
    #[error("the model's thread: {0}")]
    Thread(String),
    /// Rows that went through the model together failed together.
    #[error(transparent)]
    Shared(Arc<LmError>),
    /// The GPU, its driver or its libraries failed.
    #[error("the GPU: {0}")]
    Gpu(String),
    /// Training has gone astray.
    #[error("the loss is no longer a number after {steps} steps: lower the learning rate")]
    Diverged {
        /// Steps that were made.
        steps: usize,
    },
    /// The tensors library failed.
    #[error("the model failed: {0}")]
    Compute(#[from] candle_core::Error),
}

impl From<LmError> for DataFusionError {
    fn from(error: LmError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, LmError>;

/// What a model is computed on, and on the processor in which type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Computed {
    /// On the processor's cores, projections in this type.
    Cpu(ScorerDtype),
    /// On the first NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda,
}

impl Computed {
    fn of(settings: &Settings) -> datafusion::common::Result<Self> {
        match settings.scorer_device {
            ScorerDevice::Cpu => Ok(Self::Cpu(settings.scorer_dtype)),
            #[cfg(feature = "cuda")]
            ScorerDevice::Cuda => Ok(Self::Cuda),
            #[cfg(not(feature = "cuda"))]
            ScorerDevice::Cuda => config_err!(
                "asap.scorer.device = 'cuda' needs an asap that was built with `cargo build --release --features cuda`"
            ),
        }
    }
}

/// The models of a session, loaded when first asked for and shared by all functions.
#[derive(Debug, Clone, Default)]
pub struct Models {
    loaded: Arc<Mutex<Loaded>>,
}

#[derive(Debug, Default)]
struct Loaded {
    tokenizers: HashMap<PathBuf, Arc<Tokenizer>>,
    models: HashMap<(PathBuf, Computed), Arc<LoadedModel>>,
    /// By the model's folder, how it is computed and the setting `asap.scorer.prompt`.
    scorers: HashMap<(PathBuf, Computed, Option<String>), Arc<Scorer>>,
}

impl Loaded {
    fn tokenizer(&mut self, folder: &Path) -> Result<Arc<Tokenizer>> {
        if let Some(tokenizer) = self.tokenizers.get(folder) {
            return Ok(Arc::clone(tokenizer));
        }
        let tokenizer = Arc::new(Tokenizer::load(folder)?);
        self.tokenizers.insert(folder.to_path_buf(), Arc::clone(&tokenizer));
        Ok(tokenizer)
    }

    fn model(&mut self, folder: &Path, computed: Computed, tokenizer: &Tokenizer) -> Result<Arc<LoadedModel>> {
        let key = (folder.to_path_buf(), computed);
        if let Some(model) = self.models.get(&key).filter(|model| !model.is_over()) {
            return Ok(Arc::clone(model));
        }
        let model = Arc::new(LoadedModel::load(folder, computed, tokenizer)?);
        self.models.insert(key, Arc::clone(&model));
        Ok(model)
    }

    fn scorer(&mut self, folder: &Path, computed: Computed, prompt: Option<&str>) -> Result<Arc<Scorer>> {
        let key = (folder.to_path_buf(), computed, prompt.map(str::to_string));
        if let Some(scorer) = self.scorers.get(&key).filter(|scorer| !scorer.is_over()) {
            return Ok(Arc::clone(scorer));
        }
        let tokenizer = self.tokenizer(folder)?;
        let model = self.model(folder, computed, &tokenizer)?;
        let scorer = Arc::new(Scorer::new(folder, prompt, tokenizer, model)?);
        self.scorers.insert(key, Arc::clone(&scorer));
        Ok(scorer)
    }
}

impl Models {
    /// The tokenizer of the scoring model (`asap.scorer.model`).
    ///
    /// # Errors
    /// One that names the setting, the folder and what is wrong with it.
    pub fn tokenizer(&self, config: &ConfigOptions) -> datafusion::common::Result<Arc<Tokenizer>> {
        self.load(&Settings::of(config)?.scorer_model, Loaded::tokenizer)
    }

    /// The scoring model (`asap.scorer.model`), computed as `asap.scorer.device` and `asap.scorer.dtype` say, with its
    /// prompt (`asap.scorer.prompt`).
    ///
    /// # Errors
    /// One that names the setting, the folder and what is wrong with it.
    pub fn scorer(&self, config: &ConfigOptions) -> datafusion::common::Result<Arc<Scorer>> {
        let settings = Settings::of(config)?;
        let computed = Computed::of(settings)?;
        self.load(&settings.scorer_model, |loaded, folder| {
            loaded.scorer(folder, computed, settings.scorer_prompt.as_deref())
        })
    }

    fn load<T>(
        &self,
        folder: &str,
        load: impl FnOnce(&mut Loaded, &Path) -> Result<T>,
    ) -> datafusion::common::Result<T> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        load(&mut loaded, Path::new(folder))
            .map_err(|error| config_datafusion_err!("asap.scorer.model = '{folder}': {error}"))
    }
}

// Functions are equal when they share their models: the engine compares functions to merge equal expressions.
impl PartialEq for Models {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.loaded, &other.loaded)
    }
}

impl Eq for Models {}

impl Hash for Models {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.loaded).hash(state);
    }
}
