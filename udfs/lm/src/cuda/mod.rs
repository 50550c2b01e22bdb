//! The decoder on an NVIDIA GPU: products by cuBLAS, the rest by kernels of ours that NVRTC compiles for the GPU when the
//! model is loaded.
//!
//! Weights, and what products and attention read, are f16; sums, norms and the residual stream are f32. f16 takes the
//! space and the time of bf16 and keeps three more bits: a weight that is bf16 loses nothing, or at most 3e-8 where it is
//! smaller than 6e-5, and scores agree with those of the CPU in f32 an order of magnitude better. Numbers beyond 65,504,
//! which bf16 could hold, are an error.
//!
//! Driver and libraries are found when they are asked for, so that a build needs nothing of CUDA.

// The kernels' addresses and lengths are in our hands: what is launched fits the slices that it is given.
#![allow(unsafe_code, reason = "kernels and cuBLAS take pointers")]

mod gpu;
mod kernels;
mod output;
mod pass;
mod tiles;
mod types;
mod weights;

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::CudaSlice;
use half::f16;

use super::config::ModelConfig;
use super::layer::IsWanted;
use super::output::{Target, TokenScore, targets_in};
use super::pass::{TOKENS_PER_PASS, chunked};
use super::rope::Rope;
use super::thread::Model;
use super::{LmError, Result};
use gpu::Gpu;
pub use weights::F16Tensor;
use weights::GpuWeights;

/// The weights of a model as [`CudaModel::new`] takes them.
pub type Weights = super::weights::Weights<F16Tensor>;

/// A model in the memory of a GPU.
#[derive(Debug)]
pub struct CudaModel {
    config: ModelConfig,
    gpu: Gpu,
    weights: GpuWeights,
    buffers: Buffers,
    rope: Rope,
    angles: Angles,
    output_rows: Arc<AtomicU64>,
}

/// Bytes for what a pass is told, the rotations of positions and the room of cuBLAS.
const BESIDE: usize = 256 << 20;

/// What a pass writes between its products; each is [tokens of a pass, width].
#[derive(Debug)]
struct Buffers {
    x: CudaSlice<f32>,
    normed: CudaSlice<f16>,
    /// Queries, keys and values of a token side by side, as their product gives them.
    joined: CudaSlice<f32>,
    queries: CudaSlice<f16>,
    gathered: CudaSlice<f16>,
    own: KvCache,
    gate_and_up: CudaSlice<f16>,
    activated: CudaSlice<f16>,
    logits: CudaSlice<f32>,
}

type KvCache = [CudaSlice<f16>; 2];

#[derive(Debug)]
struct Angles {
    positions: usize,
    cosines: CudaSlice<f32>,
    sines: CudaSlice<f32>,
}

impl CudaModel {
    /// Reads the weights of a folder in Hugging Face's layout and takes them to the first visible GPU.
    ///
    /// # Errors
    /// As [`CudaModel::new`] and [`super::weights::Weights::load`].
    pub fn load(folder: &Path, config: ModelConfig) -> Result<Self> {
        let gpu = Gpu::open(&config)?;
        let weights = Weights::load(folder, &config)?;
        Self::on(gpu, config, weights)
    }

    /// Takes weights to the first visible GPU. They leave the computer's memory one by one.
    ///
    /// # Errors
    /// If there is no GPU of compute capability 8.0, no driver, NVRTC or cuBLAS, if the GPU has too little memory, or
    /// heads or widths are not such as the kernels are written for.
    pub fn new(config: ModelConfig, weights: Weights) -> Result<Self> {
        Self::on(Gpu::open(&config)?, config, weights)
    }

    fn on(gpu: Gpu, config: ModelConfig, weights: Weights) -> Result<Self> {
        let weights = GpuWeights::take(&gpu, weights)?;
        let buffers = Buffers::of(&gpu, &config)?;
        let rope = Rope::new(&config.rope, config.head_dim);
        let angles = Angles { positions: 0, cosines: gpu.room(0)?, sines: gpu.room(0)? };
        Ok(Self { config, gpu, weights, buffers, rope, angles, output_rows: Arc::default() })
    }

    /// The scores of `targets`; those that f16 could not hold on the way are no numbers. Rows count through
    /// all of `ids`: chains that follow each other, `lengths` tokens each, which do not see each other.
    ///
    /// # Errors
    /// If a token is not in the model's vocabulary, or the GPU fails: its memory cannot hold the keys and values of chains
    /// of more than [`CudaModel::longest`] tokens. [`LmError::Abandoned`] soon after `is_wanted` says that nobody waits.
    pub fn score(
        &mut self,
        ids: &[u32],
        lengths: &[usize],
        targets: &[Target],
        is_wanted: &IsWanted,
    ) -> Result<Vec<TokenScore>> {
        let mut scores = vec![TokenScore { surprisal: f32::NAN, entropy: f32::NAN }; targets.len()];
        if targets.is_empty() {
            return Ok(scores);
        }
        self.check(ids)?;
        self.gpu.enter()?;
        self.reach(lengths.iter().copied().max().unwrap_or(0))?;
        let mut before: Option<Vec<KvCache>> = None;
        for part in chunked(lengths) {
            if part.chains[0].earlier == 0 {
                // Those of a chain before are freed first.
                drop(before.take());
                before = part.of.map(|length| self.empty_kv_cache(length)).transpose()?;
            }
            if !is_wanted() {
                return Err(LmError::Abandoned);
            }
            self.pass(&ids[part.tokens.clone()], &part.chains, before.as_deref_mut())?;
            crate::pass::count_read(part.tokens.len());
            let (places, own) = targets_in(&part.tokens, targets);
            for (place, score) in places.into_iter().zip(self.score_rows(&own)?) {
                scores[place] = score;
            }
            self.output_rows.fetch_add(own.len() as u64, Ordering::Relaxed);
        }
        Ok(scores)
    }

    /// Counts the rows that go through the output layer.
    pub fn output_rows(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.output_rows)
    }

    /// Bytes of memory that a model of this shape takes on the GPU, without the keys and values of long chains.
    fn bytes(config: &ModelConfig) -> usize {
        let ModelConfig { hidden_size: hidden, intermediate_size: wide, vocab_size: vocabulary, .. } = *config;
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        let layer = 2 * hidden * (queries + keys) + 3 * hidden * wide;
        let tables = if config.tie_word_embeddings { 1 } else { 2 };
        let weights = 2 * (config.num_hidden_layers * layer + tables * vocabulary * hidden);
        let token = 6 * hidden + 4 * (queries + 2 * keys) + 4 * queries + 4 * keys + 6 * wide;
        weights + TOKENS_PER_PASS * token + 4 * output::LOGITS + BESIDE
    }

    /// The most tokens of a chain whose keys and values fit in the GPU's memory.
    pub fn longest(&self) -> usize {
        let heads = self.config.heads();
        let token = 2 * size_of::<f16>() * self.config.num_hidden_layers * heads.key * heads.width;
        TOKENS_PER_PASS.max(self.gpu.left() / token)
    }

    fn reach(&mut self, positions: usize) -> Result<()> {
        if positions > self.angles.positions {
            let positions = positions.next_power_of_two();
            let table = self.rope.table(positions);
            let [cosines, sines] = [&table.cos, &table.sin].map(|angles| self.gpu.copied(angles));
            self.angles = Angles { positions, cosines: cosines?, sines: sines? };
        }
        Ok(())
    }

    fn check(&self, ids: &[u32]) -> Result<()> {
        let vocabulary = self.config.vocab_size;
        match ids.iter().find(|id| **id as usize >= vocabulary) {
            Some(id) => Err(LmError::Gpu(format!("expected tokens below {vocabulary}, found {id}"))),
            None => Ok(()),
        }
    }

    fn empty_kv_cache(&self, tokens: usize) -> Result<Vec<KvCache>> {
        let values = tokens * self.config.num_key_value_heads * self.config.head_dim;
        let room = |_| Ok([self.gpu.room(values)?, self.gpu.room(values)?]);
        (0..self.config.num_hidden_layers).map(room).collect()
    }
}

impl Buffers {
    fn of(gpu: &Gpu, config: &ModelConfig) -> Result<Self> {
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
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

impl Model for CudaModel {
    fn score(
        &mut self,
        ids: &[u32],
        lengths: &[usize],
        targets: &[Target],
        is_wanted: &IsWanted,
    ) -> Result<Vec<TokenScore>> {
        Self::score(self, ids, lengths, targets, is_wanted)
    }
}

#[cfg(test)]
mod tests;

fn failed(error: impl Display) -> LmError {
    LmError::Gpu(error.to_string())
}
