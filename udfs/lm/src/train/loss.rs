//! The loss of next tokens and its gradient: final norm and output layer, in chunks of the rows to learn.

use crate::Result;
use crate::ops::cross_entropy::surprisals;
use crate::ops::{self, Cores, Matrix, Update, gradients, multiply};
use candle_core::Error;

/// Most rows per chunk: with a small vocabulary their logits stay in cache.
const CHUNK_ROWS: usize = 512;
/// Most logits per chunk: 256 MB.
const CHUNK_LOGITS: usize = 1 << 26;

/// Rows per pass through the output layer, for this vocabulary size.
pub(crate) fn chunk_rows(vocabulary: usize) -> usize {
    (CHUNK_LOGITS / vocabulary).clamp(1, CHUNK_ROWS)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    pub norm: &'a [f32],
    pub epsilon: f64,
    pub output: &'a [f32],
}

#[derive(Debug, Default)]
pub(crate) struct ChunkRoom {
    rows: Vec<f32>,
    normed: Vec<f32>,
    logits: Vec<f32>,
}

impl Head<'_> {
    /// Returns the sum over `rows` of −ln P(target) in nats, where P = softmax(norm(x) × outputᵀ), with one target per
    /// row. Replaces `x`, [tokens, hidden], by the gradient of `scale` times the sum, and adds those of the weights of
    /// norm and output. Rows must ascend.
    pub(crate) fn backward(
        &self,
        x: &mut [f32],
        (rows, targets): (&[u32], &[u32]),
        scale: f32,
        [by_norm, by_output]: [&mut [f32]; 2],
        room: &mut ChunkRoom,
    ) -> Result<f64> {
        let width = self.norm.len();
        let vocabulary = self.output.len() / width;
        if let Some(target) = targets.iter().find(|target| **target as usize >= vocabulary) {
            return Err(Error::msg(format!("expected a token id below {vocabulary}, found {target}")).into());
        }
        let output = Matrix::dense(self.output, vocabulary, width);
        let mut nats = 0.0;
        let mut after = 0;
        let most = chunk_rows(vocabulary);
        for (places, targets) in rows.chunks(most).zip(targets.chunks(most)) {
            let ChunkRoom { rows, normed, logits } = room;
            rows.clear();
            places.iter().for_each(|place| rows.extend_from_slice(&x[*place as usize * width..][..width]));
            normed.resize(rows.len(), 0.0);
            ops::rms_norm_to(rows, self.norm, self.epsilon, normed);
            let logits = ops::at_least(logits, places.len() * vocabulary);
            let hidden = Matrix::dense(normed, places.len(), width);
            multiply(hidden, output.t(), 1.0, logits, Update::Replace, Cores::All);
            nats += surprisals(logits, targets, scale);
            let by_logits = Matrix::dense(logits, places.len(), vocabulary);
            multiply(by_logits.t(), hidden, 1.0, by_output, Update::Add, Cores::All);
            multiply(by_logits, output, 1.0, normed, Update::Replace, Cores::All);
            gradients::add_parts(by_norm, &gradients::rms_norm(normed, rows, self.norm, self.epsilon));
            for (place, row) in places.iter().zip(normed.chunks_exact(width)) {
                let place = *place as usize * width;
                x[after..place].fill(0.0);
                x[place..place + width].copy_from_slice(row);
                after = place + width;
            }
        }
        x[after..].fill(0.0);
        Ok(nats)
    }
}
