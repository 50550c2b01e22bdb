//! The output layer for requested rows, a part of the vocabulary at a time.

use super::CudaModel;
use super::gpu::Update;
use super::types::Sums;
use crate::Result;
use crate::backend::{Target, TokenScore};
use crate::ops::SumOfExponentials;

const ROWS: usize = 1024;
const VOCABULARY: usize = 8192;
pub(super) const LOGITS: usize = ROWS * VOCABULARY;

impl CudaModel {
    pub(super) fn score_rows(&mut self, targets: &[Target]) -> Result<Vec<TokenScore>> {
        self.check_ids(&targets.iter().map(|target| target.id).collect::<Vec<_>>())?;
        let mut scores = Vec::with_capacity(targets.len());
        for part in targets.chunks(ROWS) {
            scores.extend(self.sums(part)?.into_iter().map(Sums::score));
        }
        Ok(scores)
    }

    fn sums(&mut self, targets: &[Target]) -> Result<Vec<Sums>> {
        let Self { config, gpu, weights, buffers, .. } = self;
        let (count, hidden, output) = (targets.len(), config.hidden_size, weights.output());
        let rows = gpu.copied(&targets.iter().map(|target| target.row).collect::<Vec<_>>())?;
        let ids = gpu.copied(&targets.iter().map(|target| target.id).collect::<Vec<_>>())?;
        let mut sums = gpu.room::<Sums>(count)?;
        let epsilon = config.rms_norm_eps as f32;
        gpu.rms_norm(&buffers.x, &weights.norm, Some(&rows), &mut buffers.normed, [count, hidden], epsilon)?;
        gpu.begin_sums(&buffers.normed, output, &ids, &mut sums, count)?;
        for first in (0..output.outputs).step_by(VOCABULARY) {
            let part = first..output.outputs.min(first + VOCABULARY);
            gpu.product(&buffers.normed, count, output, Some(part.clone()), &mut buffers.logits, Update::Replace)?;
            gpu.sum_exponentials(&buffers.logits, &ids, &mut sums, count, part)?;
        }
        gpu.read(&sums)
    }
}

impl Sums {
    fn score(self) -> TokenScore {
        let sum = SumOfExponentials { max: self.max, sum: f64::from(self.sum), weighted: f64::from(self.weighted) };
        let (log_sum, entropy) = sum.finish();
        TokenScore { surprisal: log_sum - self.own, entropy, rank: 1 + self.above }
    }
}
