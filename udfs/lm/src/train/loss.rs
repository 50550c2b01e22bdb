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
    /// Rows per pass through the output layer.
    pub chunk_rows: usize,
}

#[derive(Debug)]
pub(crate) struct HeadGradient<'a> {
    pub norm: &'a mut [f32],
    pub output: &'a mut [f32],
}

#[derive(Debug, Default)]
pub(crate) struct ChunkRoom {
    rows: Vec<f32>,
    normed: Vec<f32>,
    logits: Vec<f32>,
}

impl Head<'_> {
    /// Returns the sum over `rows` of −ln P(target) in nats, where P = softmax(norm(x) × outputᵀ), with one target per
    /// row. Replaces `x`, [tokens, hidden], by the gradient of `scale` times the sum. Rows must ascend.
    pub(crate) fn backward(
        &self,
        x: &mut [f32],
        (rows, targets): (&[u32], &[u32]),
        scale: f32,
        by: HeadGradient,
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
        for (places, targets) in rows.chunks(self.chunk_rows).zip(targets.chunks(self.chunk_rows)) {
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
            multiply(by_logits.t(), hidden, 1.0, by.output, Update::Add, Cores::All);
            multiply(by_logits, output, 1.0, normed, Update::Replace, Cores::All);
            gradients::add_parts(by.norm, &gradients::rms_norm(normed, rows, self.norm, self.epsilon));
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

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Tensor, Var};

    #[test]
    fn chunks_of_any_size_agree_with_autograd() {
        let wave = |rows: usize, width: usize, pace: f32| {
            let numbers: Vec<f32> = (0..rows * width).map(|i| (i as f32 * pace).sin() * 2.0).collect();
            Var::from_vec(numbers, (rows, width), &Device::Cpu).unwrap()
        };
        let numbers = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let (x, output, norm) = (wave(12, 5, 0.9), wave(70, 5, 0.37), wave(1, 5, 1.3));
        let rows = [0, 1, 3, 4, 5, 7, 9, 10, 11];
        let targets: Vec<u32> = (0..9).map(|i| i * 7).collect();
        let hidden = candle_nn::ops::rms_norm_slow(&x, &norm.flatten_all().unwrap(), 1e-6).unwrap();
        let hidden = hidden.index_select(&Tensor::new(&rows, &Device::Cpu).unwrap(), 0).unwrap();
        let logits = hidden.matmul(&output.t().unwrap()).unwrap();
        let mean = candle_nn::loss::cross_entropy(&logits, &Tensor::new(targets.as_slice(), &Device::Cpu).unwrap());
        let expected = (mean.unwrap() * 9.0).unwrap();
        let gradients = (&expected * 0.5).unwrap().backward().unwrap();
        let expected = f64::from(expected.to_scalar::<f32>().unwrap());
        let weights = (numbers(&norm), numbers(&output));
        for chunk_rows in [1, 4, 9, 100] {
            let head = Head { norm: &weights.0, epsilon: 1e-6, output: &weights.1, chunk_rows };
            let (mut by_x, mut by_norm, mut by_output) = (numbers(&x), vec![0.0; 5], vec![0.0; 350]);
            let by = HeadGradient { norm: &mut by_norm, output: &mut by_output };
            let room = &mut ChunkRoom::default();
            let nats = head.backward(&mut by_x, (&rows, &targets), 0.5, by, room).unwrap();
            assert!((nats - expected).abs() < 1e-4, "{nats} against {expected}");
            for (found, variable) in [(by_x, &x), (by_output, &output), (by_norm, &norm)] {
                for (found, expected) in found.iter().zip(numbers(gradients.get(variable).unwrap())) {
                    assert!((found - expected).abs() < 1e-5, "{found} against {expected}");
                }
            }
            let by = HeadGradient { norm: &mut [0.0; 5], output: &mut [0.0; 350] };
            let refused = head.backward(&mut numbers(&x), (&[0], &[70]), 0.5, by, room);
            assert!(refused.unwrap_err().to_string().contains("below 70, found 70"));
        }
    }
}
