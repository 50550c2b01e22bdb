//! A loaded model on its thread.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::ask::survival::{Checker, Reader};
use crate::backend::{Backend, Continuation, Continued, Fork, IsWanted, Packed, Target, TokenScore};
#[cfg(feature = "cuda")]
use crate::cuda::CudaModel;
use crate::memo::Memory;
use crate::model::config::ModelConfig;
use crate::model::decoder::Decoder;
use crate::model::output::{Output, rows_of, targets_in};
use crate::model::pass::{TOKENS_PER_PASS, together};
use crate::model::weights::Weights;
use crate::ops::{Bf16Matrix, F32Matrix, Projection};
use crate::score::counted::Counted;
use crate::score::thread::ModelThread;
use crate::{LmError, Result, Tokenizer};

/// Data type of projections on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    F32,
    /// bf16 weights and rounded inputs, with f32 sums.
    Bf16,
}

/// The device that runs a model, and the data type on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Computed {
    /// The CPU, with projections in this type.
    Cpu(Dtype),
    #[cfg(feature = "cuda")]
    Cuda,
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
        let config = fitting(folder, tokenizer)?;
        let (vocabulary, notes) = (config.vocab_size, config.notes.clone());
        #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "a GPU's memory may hold less"))]
        let mut window = config.max_position_embeddings;
        let thread = match computed {
            Computed::Cpu(Dtype::F32) => spawn::<F32Matrix>(folder, config, tokenizer, memory)?,
            Computed::Cpu(Dtype::Bf16) => spawn::<Bf16Matrix>(folder, config, tokenizer, memory)?,
            #[cfg(feature = "cuda")]
            Computed::Cuda => {
                let model = CudaModel::load(folder, config)?;
                window = window.min(model.longest());
                ModelThread::spawn(model, memory)?
            }
        };
        Ok(Self { thread, window, vocabulary, notes })
    }

    /// A stub without weights: adds the tokens that it would read to `tokens`, and scores every token with 0.
    pub fn counted(folder: &Path, tokens: Arc<AtomicU64>, tokenizer: &Tokenizer, memory: &Arc<Memory>) -> Result<Self> {
        Self::with_backend(Counted::new(tokens), folder, tokenizer, memory)
    }

    /// A model that a backend runs. `folder` has its config and its tokenizer, and needs no weights. Scores are cached
    /// within `memory`.
    ///
    /// # Errors
    /// If the config is missing or unsupported, or if its vocabulary does not cover the tokenizer.
    pub fn with_backend(
        backend: impl Backend + 'static,
        folder: &Path,
        tokenizer: &Tokenizer,
        memory: &Arc<Memory>,
    ) -> Result<Self> {
        let config = fitting(folder, tokenizer)?;
        Ok(Self {
            thread: ModelThread::spawn(backend, memory)?,
            window: config.max_position_embeddings,
            vocabulary: config.vocab_size,
            notes: config.notes,
        })
    }

    /// Notes on unknown or adjusted fields of the config.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn is_over(&self) -> bool {
        self.thread.is_over()
    }
}

/// Loads the config of a folder and checks that its vocabulary covers the tokenizer.
fn fitting(folder: &Path, tokenizer: &Tokenizer) -> Result<ModelConfig> {
    let config = ModelConfig::load(folder)?;
    if let Some(id) = tokenizer.largest_id().filter(|id| *id as usize >= config.vocab_size) {
        let found = format!("found token id {id}, but vocab_size in config.json is {}", config.vocab_size);
        return Err(LmError::unsupported(&folder.join("tokenizer.json"), found));
    }
    Ok(config)
}

/// Starts a model whose projections are of type `M`.
fn spawn<M: Projection + 'static>(
    folder: &Path,
    config: ModelConfig,
    tokenizer: &Arc<Tokenizer>,
    memory: &Arc<Memory>,
) -> Result<ModelThread> {
    let weights = Weights::<M>::load(folder, &config)?;
    let output = Output::new(weights.output().clone());
    let decoder = Decoder::new(config, weights);
    let checker = Checker::new(folder, tokenizer, memory)?;
    ModelThread::spawn(DecoderWithOutput { decoder, output, checker }, memory)
}

pub(crate) struct DecoderWithOutput<M> {
    pub(crate) decoder: Decoder<M>,
    pub(crate) output: Output,
    pub(crate) checker: Checker,
}

impl<M: Projection> Backend for DecoderWithOutput<M> {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn score(&mut self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let mut scores = vec![TokenScore { surprisal: f32::NAN, entropy: f32::NAN }; targets.len()];
        if targets.is_empty() {
            return Ok(scores);
        }
        let (rows, targets) = rows_of(targets.to_vec());
        self.decoder.hidden_by_pass(chains, Some(&rows), is_wanted, |rows, hidden| {
            let (places, own) = targets_in(&rows, &targets);
            places.into_iter().zip(self.output.score(&hidden, &own)?).for_each(|(place, score)| scores[place] = score);
            Ok(())
        })?;
        Ok(scores)
    }

    /// Reads the shared beginning of the texts once, and reuses its KV cache for the forks.
    fn score_forks(&mut self, texts: &[Fork], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let Some((whole, forks)) = texts.split_first() else { return Ok(vec![]) };
        let (rows, targets) = rows_of(whole.targets(0));
        let (hidden, begun) = self.decoder.prefill(&whole.ids, &rows, is_wanted)?;
        let mut scores = self.output.score(&hidden, &targets)?;
        let mut rest = forks;
        while !rest.is_empty() {
            let (run, later) = rest.split_at(together(rest.iter().map(|fork| fork.ids.len()), TOKENS_PER_PASS));
            rest = later;
            let mut start = 0;
            let targets = run.iter().flat_map(|fork| {
                start += fork.ids.len();
                fork.targets(start - fork.ids.len())
            });
            let (rows, targets) = rows_of(targets.collect());
            let hidden = self.decoder.forks(run, &begun, &rows, is_wanted)?;
            scores.extend(self.output.score(&hidden, &targets)?);
        }
        Ok(scores)
    }

    fn continue_greedily(&mut self, texts: &[&Continuation], is_wanted: &IsWanted) -> Result<Vec<Continued>> {
        self.checker.check(&Reader { decoder: &self.decoder, output: &self.output, is_wanted }, texts)
    }
}
