//! The output layer, at the rows that are asked for.

use std::sync::atomic::{AtomicU64, Ordering};

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use super::Result;
use super::ops;

/// Logits that exist at a time.
const LOGITS: usize = 1 << 22;

/// The score of one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenScore {
    /// −ln P of the token, in nats.
    pub surprisal: f32,
    /// Entropy of the distribution that it was drawn from, in nats.
    pub entropy: f32,
}

/// A token to score and the row of hidden states that predicts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Row of the hidden states: the place of the token before.
    pub row: u32,
    /// The token's id.
    pub id: u32,
}

/// The output layer of a model.
#[derive(Debug)]
pub struct Output {
    /// [vocabulary, hidden].
    weight: Tensor,
    rows: AtomicU64,
}

impl Output {
    /// An output layer of this weight, [vocabulary, hidden].
    pub fn new(weight: Tensor) -> Self {
        Self { weight, rows: AtomicU64::new(0) }
    }

    /// Scores `targets` by hidden states, [tokens, hidden]. Only the rows that targets name are multiplied, a part of
    /// them at a time; logits, softmax and entropy are f32.
    pub fn score(&self, hidden: &Tensor, targets: &[Target]) -> Result<Vec<TokenScore>> {
        let vocabulary = self.weight.dim(0)?;
        let rows_at_a_time = (LOGITS / vocabulary).max(1);
        let mut scores = Vec::with_capacity(targets.len());
        for part in targets.chunks(rows_at_a_time) {
            let rows: Vec<u32> = part.iter().map(|target| target.row).collect();
            let asked = hidden.index_select(&Tensor::new(rows, &Device::Cpu)?, 0)?;
            let logits = ops::product(&asked, &self.weight.t()?)?;
            self.rows.fetch_add((logits.len() / vocabulary) as u64, Ordering::Relaxed);
            let part_scores = logits.par_chunks(vocabulary).zip(part).map(|(logits, target)| {
                let (log_sum, entropy) = ops::log_sum_exp(logits);
                TokenScore { surprisal: log_sum - logits[target.id as usize], entropy }
            });
            scores.par_extend(part_scores);
        }
        Ok(scores)
    }

    /// The logits of one hidden state, [1, hidden].
    pub fn logits(&self, hidden: &Tensor) -> Result<Vec<f32>> {
        self.rows.fetch_add(1, Ordering::Relaxed);
        ops::product(hidden, &self.weight.t()?)
    }

    /// Rows that went through the layer so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}
