//! The output layer at the rows that are asked for, by a part of the vocabulary at a time.

use super::CudaModel;
use super::gpu::Write;
use crate::lm::Result;
use crate::lm::ops::SumOfExponentials;
use crate::lm::output::{Target, TokenScore};

/// Rows that go through the layer together.
const ROWS: usize = 1024;
/// Tokens of the vocabulary whose logits are held at a time.
const VOCABULARY: usize = 8192;
/// Logits that are held: 32 MiB of them.
pub(super) const LOGITS: usize = ROWS * VOCABULARY;

/// What sum_exponentials in kernels.cu knows of a row.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub(super) struct Sums {
    max: f32,
    sum: f32,
    weighted: f32,
    /// The logit of the row's target.
    own: f32,
}

// SAFETY: four numbers of 32 bits, laid out as in C.
unsafe impl cudarc::driver::DeviceRepr for Sums {}

impl CudaModel {
    /// Scores targets by the hidden states that a pass has left.
    pub(super) fn score_rows(&mut self, targets: &[Target]) -> Result<Vec<TokenScore>> {
        self.check(&targets.iter().map(|target| target.id).collect::<Vec<_>>())?;
        let mut scores = Vec::with_capacity(targets.len());
        for part in targets.chunks(ROWS) {
            scores.extend(self.sums(part)?.into_iter().map(Sums::score));
        }
        Ok(scores)
    }

    /// The sums over the whole vocabulary, for at most ROWS targets.
    fn sums(&mut self, targets: &[Target]) -> Result<Vec<Sums>> {
        let Self { config, gpu, weights, room, .. } = self;
        let (count, hidden, output) = (targets.len(), config.hidden_size, weights.output());
        let rows = gpu.copied(&targets.iter().map(|target| target.row).collect::<Vec<_>>())?;
        let ids = gpu.copied(&targets.iter().map(|target| target.id).collect::<Vec<_>>())?;
        let mut sums = gpu.copied(&vec![Sums::default(); count])?;
        let epsilon = config.rms_norm_eps as f32;
        gpu.rms_norm(&room.x, &weights.norm, Some(&rows), &mut room.normed, [count, hidden], epsilon)?;
        for first in (0..output.outputs).step_by(VOCABULARY) {
            let part = first..output.outputs.min(first + VOCABULARY);
            gpu.product_with(&room.normed, count, output, part.clone(), &mut room.logits, Write::Replace)?;
            gpu.sum_exponentials(&room.logits, &ids, &mut sums, count, part)?;
        }
        gpu.read(&sums)
    }
}

impl Sums {
    fn score(self) -> TokenScore {
        let sum = SumOfExponentials { max: self.max, sum: f64::from(self.sum), weighted: f64::from(self.weighted) };
        let (log_sum, entropy) = sum.finish();
        TokenScore { surprisal: log_sum - self.own, entropy }
    }
}
