//! A loaded model on its thread.

use std::path::Path;
use std::sync::Arc;

use crate::ask::survival::{Checker, Reader};
use crate::backend::{Backend, Continuation, Continued, Fork, IsWanted, Packed, TOKENS_PER_PASS, Target, TokenScore};
#[cfg(feature = "cuda")]
use crate::cuda::CudaModel;
use crate::model::config::{Limits, ModelConfig};
use crate::model::decoder::Decoder;
use crate::model::output::{rows_of, targets_in};
use crate::model::pass::groups;
use crate::model::weights::Weights;
use crate::ops::{self, Bf16Matrix, F32Matrix, Projection};
use crate::score::counted::{Counted, TokenCount};
use crate::score::thread::ModelThread;
use crate::{LmError, Result, Tokenizer};
use asap_kernels::memo::Memory;

/// Data type of projections on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    F32,
    /// bf16 weights and rounded inputs, with f32 sums.
    Bf16,
}

impl Dtype {
    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

/// The device that runs a model, and the data type on the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Computed {
    /// The CPU, with projections in this type.
    Cpu(Dtype),
    /// NVIDIA GPUs by their numbers; each holds the whole model.
    #[cfg(feature = "cuda")]
    Cuda(Vec<usize>),
}

#[derive(Debug)]
pub struct LoadedModel {
    pub(crate) thread: ModelThread,
    pub(crate) window: usize,
    pub(crate) vocabulary: usize,
    notes: Vec<String>,
}

impl LoadedModel {
    /// Loads a folder in Hugging Face's layout and starts the model's thread. Scores are cached within `memory`.
    pub fn load(folder: &Path, computed: Computed, tokenizer: &Arc<Tokenizer>, memory: &Arc<Memory>) -> Result<Self> {
        let config = ModelConfig::load(folder)?;
        check_tokenizer(folder, tokenizer, config.vocab_size)?;
        let (vocabulary, notes) = (config.vocab_size, config.notes.clone());
        #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "a GPU's memory may hold less"))]
        let mut window = config.max_position_embeddings;
        let thread = match computed {
            Computed::Cpu(Dtype::F32) => spawn::<F32Matrix>(folder, config, tokenizer, memory)?,
            Computed::Cpu(Dtype::Bf16) => spawn::<Bf16Matrix>(folder, config, tokenizer, memory)?,
            #[cfg(feature = "cuda")]
            Computed::Cuda(cards) => {
                let mut models: Vec<Box<dyn Backend>> = Vec::with_capacity(cards.len());
                for card in cards {
                    let model = CudaModel::load(folder, config.clone(), card)?;
                    window = window.min(model.longest());
                    models.push(Box::new(model));
                }
                ModelThread::spawn(models, memory)?
            }
        };
        Ok(Self { thread, window, vocabulary, notes })
    }

    /// A stub without weights: adds the tokens that it would read to `tokens`, and scores every token with 0.
    pub fn counted(
        folder: &Path,
        tokens: Arc<TokenCount>,
        tokenizer: &Tokenizer,
        memory: &Arc<Memory>,
    ) -> Result<Self> {
        let counted = Box::new(Counted::new(tokens));
        let mut model = Self::with_backends(vec![counted], folder, tokenizer, memory)?;
        if let Ok(config) = ModelConfig::load(folder) {
            (model.window, model.notes) = (config.max_position_embeddings, config.notes);
        }
        Ok(model)
    }

    /// A model that a backend runs, or several, such as one for each GPU. Each has a thread; they take rows from one queue.
    /// `folder` has its config and its tokenizer, and needs no weights. Of the config, only the sizes of vocabulary and
    /// window count. Scores are cached within `memory`.
    ///
    /// # Errors
    /// If the config lacks these sizes, or if its vocabulary does not cover the tokenizer.
    pub fn with_backends(
        backends: Vec<Box<dyn Backend>>,
        folder: &Path,
        tokenizer: &Tokenizer,
        memory: &Arc<Memory>,
    ) -> Result<Self> {
        let Limits { window, vocabulary } = Limits::load(folder)?;
        check_tokenizer(folder, tokenizer, vocabulary)?;
        Ok(Self { thread: ModelThread::spawn(backends, memory)?, window, vocabulary, notes: vec![] })
    }

    /// Limits chains to this many tokens.
    #[must_use]
    pub fn with_window(self, tokens: usize) -> Self {
        Self { window: self.window.min(tokens), ..self }
    }

    /// Notes on unknown or adjusted fields of the config.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn is_over(&self) -> bool {
        self.thread.is_over()
    }
}

fn check_tokenizer(folder: &Path, tokenizer: &Tokenizer, vocabulary: usize) -> Result<()> {
    match tokenizer.largest_id().filter(|id| *id as usize >= vocabulary) {
        Some(id) => {
            let found = format!("found token id {id}, but vocab_size in config.json is {vocabulary}");
            Err(LmError::unsupported(&folder.join("tokenizer.json"), found))
        }
        None => Ok(()),
    }
}

fn spawn<M: Projection + 'static>(
    folder: &Path,
    config: ModelConfig,
    tokenizer: &Arc<Tokenizer>,
    memory: &Arc<Memory>,
) -> Result<ModelThread> {
    let weights = Weights::<M>::load(folder, &config)?;
    let decoder = Decoder::new(config, weights);
    let checker = Checker::new(folder, tokenizer, memory)?;
    ModelThread::spawn(vec![Box::new(CpuModel { decoder, checker })], memory)
}

pub(crate) struct CpuModel<M> {
    pub(crate) decoder: Decoder<M>,
    pub(crate) checker: Checker,
}

impl<M: Projection> CpuModel<M> {
    fn score_packed(&self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let mut scores = vec![TokenScore::NONE; targets.len()];
        if targets.is_empty() {
            return Ok(scores);
        }
        let (rows, targets) = rows_of(targets.to_vec());
        self.decoder.hidden_by_pass(chains, Some(&rows), is_wanted, |rows, hidden| {
            let (places, own) = targets_in(&rows, &targets);
            places.into_iter().zip(self.decoder.score(&hidden, &own)?).for_each(|(place, score)| scores[place] = score);
            Ok(())
        })?;
        Ok(scores)
    }

    /// Reads the shared beginning of the texts once, and reuses its KV cache for the forks.
    fn score_prefixed(&self, texts: &[Fork], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let Some((whole, forks)) = texts.split_first() else { return Ok(vec![]) };
        let (rows, targets) = rows_of(whole.targets(0));
        let (hidden, begun) = self.decoder.prefill(&whole.ids, &rows, is_wanted)?;
        let mut scores = self.decoder.score(&hidden, &targets)?;
        for run in groups(forks, |fork| fork.ids.len(), TOKENS_PER_PASS) {
            let mut start = 0;
            let targets = run.iter().flat_map(|fork| {
                start += fork.ids.len();
                fork.targets(start - fork.ids.len())
            });
            let (rows, targets) = rows_of(targets.collect());
            let hidden = self.decoder.forks(run, &begun, &rows, is_wanted)?;
            scores.extend(self.decoder.score(&hidden, &targets)?);
        }
        Ok(scores)
    }
}

impl<M: Projection> Backend for CpuModel<M> {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn continues(&self) -> bool {
        true
    }

    fn score(&mut self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        ops::on_cores(|| self.score_packed(chains, targets, is_wanted))
    }

    fn score_forks(&mut self, texts: &[Fork], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        ops::on_cores(|| self.score_prefixed(texts, is_wanted))
    }

    fn continue_greedily(&mut self, texts: &[&Continuation], is_wanted: &IsWanted) -> Result<Vec<Continued>> {
        let Self { decoder, checker } = self;
        ops::on_cores(|| checker.check(&Reader { decoder, is_wanted }, texts))
    }
}
