//! The decoder on an NVIDIA GPU: cuBLAS for products, and custom kernels that NVRTC compiles for the GPU at load time.
//!
//! Weights, and the inputs of products and attention, are f16; sums, norms and the residual stream are f32. f16 has the
//! size and speed of bf16 and three more bits. A bf16 weight is exact, or off by at most 3e-8 if it is smaller than
//! 6e-5. Scores are an order of magnitude closer to the CPU's in f32. Numbers beyond 65,504, which bf16 could
//! represent, are an error.
//!
//! The driver and libraries are loaded at run time, so a build needs no CUDA.

// Safety: every launch checks that the kernel's accesses fit the slices that it receives.
#![allow(unsafe_code, reason = "kernels and cuBLAS take pointers")]

mod gpu;
mod kernels;
mod output;
mod pass;
mod tiles;
mod types;
mod weights;

use std::cmp::Reverse;
use std::fmt::Display;
use std::path::Path;

use cudarc::driver::CudaSlice;
use half::f16;

use crate::backend::{Backend, Fork, IsWanted, Packed, TOKENS_PER_PASS, Target, TokenScore};
use crate::model::config::ModelConfig;
use crate::model::output::targets_in;
use crate::model::pass::chunked;
use crate::model::rope::Rope;
use crate::ops::Sequence;
use crate::{LmError, Result};
use gpu::Gpu;
pub use weights::F16Tensor;
use weights::GpuWeights;

pub type Weights = crate::model::weights::Weights<F16Tensor>;

/// Returns the number of the first visible GPU that can hold and run a model of this shape; None without a GPU.
///
/// # Errors
/// If there are GPUs, and none can. The error is that of the first one.
pub fn card_for(config: &ModelConfig) -> Result<Option<usize>> {
    gpu::first(config)
}

#[derive(Debug)]
pub struct CudaModel {
    config: ModelConfig,
    gpu: Gpu,
    weights: GpuWeights,
    buffers: Buffers,
    rope: Rope,
    positions: usize,
    angles: Angles,
}

/// Bytes for the inputs of a pass, the RoPE table and cuBLAS's workspace.
const EXTRA_BYTES: usize = 256 << 20;

/// Intermediate results of a pass; each is [tokens of a pass, width].
#[derive(Debug)]
struct Buffers {
    x: CudaSlice<f32>,
    normed: CudaSlice<f16>,
    /// Queries, keys and values of each token side by side, the output of one product.
    joined: CudaSlice<f32>,
    queries: CudaSlice<f16>,
    gathered: CudaSlice<f16>,
    own: KvCache,
    gate_and_up: CudaSlice<f16>,
    activated: CudaSlice<f16>,
    logits: CudaSlice<f32>,
}

type KvCache = [CudaSlice<f16>; 2];

/// Cosines and sines of [`RopeTable`](crate::ops::RopeTable).
type Angles = [CudaSlice<f32>; 2];

impl CudaModel {
    /// Loads a folder in Hugging Face's layout onto the visible GPU with this number.
    pub fn load(folder: &Path, config: ModelConfig, card: usize) -> Result<Self> {
        let gpu = Gpu::open(&config, card)?;
        let weights = Weights::load(folder, &config)?;
        Self::on(gpu, config, weights)
    }

    /// Copies weights to the first visible GPU, freeing them in host memory one at a time.
    ///
    /// # Errors
    /// If there is no GPU of compute capability 8.0 or later, no driver, NVRTC or cuBLAS, too little GPU memory, or the
    /// kernels do not support the sizes of heads or layers.
    pub fn new(config: ModelConfig, weights: Weights) -> Result<Self> {
        Self::on(Gpu::open(&config, 0)?, config, weights)
    }

    /// Checks that the visible GPU with this number can hold and run a model of this shape.
    ///
    /// # Errors
    /// As [`CudaModel::new`].
    pub fn check(config: &ModelConfig, card: usize) -> Result<()> {
        gpu::find(config, card).map(drop)
    }

    fn on(gpu: Gpu, config: ModelConfig, weights: Weights) -> Result<Self> {
        let weights = GpuWeights::take(&gpu, weights)?;
        let buffers = Buffers::of(&gpu, &config)?;
        let rope = Rope::new(&config.rope, config.head_dim);
        let angles = [gpu.room(0)?, gpu.room(0)?];
        Ok(Self { config, gpu, weights, buffers, rope, positions: 0, angles })
    }

    /// GPU memory in bytes for a model of this shape, without the KV cache of long chains.
    fn bytes(config: &ModelConfig) -> usize {
        let ModelConfig { hidden_size: hidden, intermediate_size: wide, vocab_size: vocabulary, .. } = *config;
        let (queries, keys) = (config.heads().query_width(), config.heads().key_width());
        let layer = 2 * hidden * (queries + keys) + 3 * hidden * wide;
        let tables = if config.tie_word_embeddings { 1 } else { 2 };
        let weights = 2 * (config.num_hidden_layers * layer + tables * vocabulary * hidden);
        let token = 6 * hidden + 4 * (queries + 2 * keys) + 4 * queries + 4 * keys + 6 * wide;
        weights + TOKENS_PER_PASS * token + 4 * output::LOGITS + EXTRA_BYTES
    }

    /// Most tokens of a chain whose KV cache fits the GPU's memory.
    pub fn longest(&self) -> usize {
        let token = 2 * size_of::<f16>() * self.config.num_hidden_layers * self.config.heads().key_width();
        TOKENS_PER_PASS.max(self.gpu.left / token)
    }

    fn reach(&mut self, positions: usize) -> Result<()> {
        if positions > self.positions {
            let table = self.rope.table(positions);
            self.angles = [self.gpu.copied(&table.cos)?, self.gpu.copied(&table.sin)?];
            self.positions = table.positions();
        }
        Ok(())
    }

    fn check_ids(&self, ids: &[u32]) -> Result<()> {
        let vocabulary = self.config.vocab_size;
        match ids.iter().find(|id| **id as usize >= vocabulary) {
            Some(id) => Err(LmError::Gpu(format!("expected token ids below {vocabulary}, found {id}"))),
            None => Ok(()),
        }
    }

    /// Scores the own tokens of a text, and leaves their keys and values in the cache after its prefix.
    fn score_after(&mut self, before: &mut [KvCache], text: &Fork, is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        self.check_ids(&text.ids)?;
        let targets = text.targets(0);
        let mut scores = Vec::with_capacity(targets.len());
        for first in (0..text.ids.len()).step_by(TOKENS_PER_PASS) {
            if !is_wanted() {
                return Err(LmError::Abandoned);
            }
            let part = first..text.ids.len().min(first + TOKENS_PER_PASS);
            let chain = Sequence { earlier: text.from + first, tokens: part.len() };
            self.pass(&text.ids[part.clone()], &[chain], Some(before))?;
            crate::model::pass::count_read(part.len());
            scores.extend(self.score_rows(&targets_in(&part, &targets).1)?);
        }
        Ok(scores)
    }

    fn empty_kv_cache(&self, tokens: usize) -> Result<Vec<KvCache>> {
        let values = tokens * self.config.heads().key_width();
        let room = |_| Ok([self.gpu.room(values)?, self.gpu.room(values)?]);
        (0..self.config.num_hidden_layers).map(room).collect()
    }
}

impl Buffers {
    fn of(gpu: &Gpu, config: &ModelConfig) -> Result<Self> {
        let (queries, keys) = (config.heads().query_width(), config.heads().key_width());
        Ok(Self {
            x: gpu.room(TOKENS_PER_PASS * config.hidden_size)?,
            normed: gpu.room(TOKENS_PER_PASS * config.hidden_size)?,
            joined: gpu.room(TOKENS_PER_PASS * (queries + 2 * keys))?,
            queries: gpu.room(TOKENS_PER_PASS * queries)?,
            gathered: gpu.room(TOKENS_PER_PASS * queries)?,
            own: [gpu.room(TOKENS_PER_PASS * keys)?, gpu.room(TOKENS_PER_PASS * keys)?],
            gate_and_up: gpu.room(TOKENS_PER_PASS * 2 * config.intermediate_size)?,
            activated: gpu.room(TOKENS_PER_PASS * config.intermediate_size)?,
            logits: gpu.room(output::LOGITS)?,
        })
    }
}

impl Backend for CudaModel {
    fn name(&self) -> &'static str {
        "cuda"
    }

    /// Scores `targets`. The row of a target is an index into the ids of all chains together. A score is NaN if an f16
    /// value overflows.
    ///
    /// # Errors
    /// If a token is not in the model's vocabulary, or if the GPU fails. For example, its memory has no room for the KV
    /// cache of a chain of more than [`CudaModel::longest`] tokens. [`LmError::Abandoned`] soon after `is_wanted`
    /// returns false.
    fn score(&mut self, chains: Packed, targets: &[Target], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let Packed { ids, lengths } = chains;
        let mut scores = vec![TokenScore::NONE; targets.len()];
        if targets.is_empty() {
            return Ok(scores);
        }
        self.check_ids(ids)?;
        self.gpu.enter()?;
        self.reach(lengths.iter().copied().max().unwrap_or(0))?;
        let mut before: Option<Vec<KvCache>> = None;
        for part in chunked(lengths) {
            if part.chains[0].earlier == 0 {
                // Free the KV cache of the previous chain first.
                drop(before.take());
                before = part.of.map(|length| self.empty_kv_cache(length)).transpose()?;
            }
            if !is_wanted() {
                return Err(LmError::Abandoned);
            }
            self.pass(&ids[part.tokens.clone()], &part.chains, before.as_deref_mut())?;
            crate::model::pass::count_read(part.tokens.len());
            let (places, own) = targets_in(&part.tokens, targets);
            for (place, score) in places.into_iter().zip(self.score_rows(&own)?) {
                scores[place] = score;
            }
        }
        Ok(scores)
    }

    /// Reads the first text once, and keeps its KV cache. Each other text overwrites the cache after its prefix. The
    /// longest prefix comes first, so that each text finds its own as the first text left it.
    fn score_forks(&mut self, texts: &[Fork], is_wanted: &IsWanted) -> Result<Vec<TokenScore>> {
        let longest = texts.iter().map(|text| text.from + text.ids.len()).max().unwrap_or(0);
        self.gpu.enter()?;
        self.reach(longest)?;
        let mut before = self.empty_kv_cache(longest)?;
        let mut order: Vec<usize> = (0..texts.len()).collect();
        // The sort is stable: the first text stays first.
        order.sort_by_key(|index| (*index > 0, Reverse(texts[*index].from)));
        let mut scores = vec![vec![]; texts.len()];
        for index in order {
            scores[index] = self.score_after(&mut before, &texts[index], is_wanted)?;
        }
        Ok(scores.concat())
    }
}

#[cfg(test)]
#[cfg(feature = "cuda-tests")]
mod tests;

fn failed(error: impl Display) -> LmError {
    LmError::Gpu(error.to_string())
}
