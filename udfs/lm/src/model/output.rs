//! The output layer, for requested rows only.

use std::ops::Range;

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use crate::Result;
use crate::backend::{Target, TokenScore};
use crate::model::decoder::Decoder;
use crate::ops::{self, Cores, Matrix, Pool, Projection, SumOfExponentials, Update};

const ROWS: usize = 512;
const VOCABULARY: usize = 1024;

/// The targets with rows in `rows`, renumbered from its start, each with its index in `targets`.
pub(crate) fn targets_in(rows: &Range<usize>, targets: &[Target]) -> (Vec<usize>, Vec<Target>) {
    let own = |(place, target): (usize, &Target)| {
        let row = (target.row as usize).checked_sub(rows.start).filter(|row| *row < rows.len())?;
        Some((place, Target { row: row as u32, id: target.id }))
    };
    targets.iter().enumerate().filter_map(own).unzip()
}

/// The distinct rows of targets, ascending, and the targets renumbered to indices of these rows.
pub(crate) fn rows_of(mut targets: Vec<Target>) -> (Vec<u32>, Vec<Target>) {
    let mut rows: Vec<u32> = targets.iter().map(|target| target.row).collect();
    rows.sort_unstable();
    rows.dedup();
    for target in &mut targets {
        target.row = rows.partition_point(|row| *row < target.row) as u32;
    }
    (rows, targets)
}

impl<M: Projection> Decoder<M> {
    /// Scores `targets` from hidden states, [tokens, hidden]. Multiplies only the rows of targets, by a part of the
    /// vocabulary at a time. Logits, softmax and entropy are f32.
    pub fn score(&self, hidden: &Tensor, targets: &[Target]) -> Result<Vec<TokenScore>> {
        let mut scores = Vec::with_capacity(targets.len());
        for part in targets.chunks(ROWS) {
            let rows: Vec<u32> = part.iter().map(|target| target.row).collect();
            let asked = hidden.index_select(&Tensor::new(rows, &Device::Cpu)?, 0)?;
            ops::read([&asked], |[asked]| self.score_rows(asked, part, &mut scores))??;
            #[cfg(test)]
            self.output_rows.fetch_add(part.len(), std::sync::atomic::Ordering::Relaxed);
        }
        Ok(scores)
    }

    fn score_rows(&self, hidden: &[f32], targets: &[Target], scores: &mut Vec<TokenScore>) -> Result<()> {
        let weight = self.weights.output();
        let (vocabulary, width) = weight.dims2()?;
        let hidden = Matrix::dense(hidden, targets.len(), width);
        let pool = Pool::<[Vec<f32>; 2]>::default();
        let firsts: Vec<usize> = (0..vocabulary).step_by(VOCABULARY).collect();
        let part = |first: &usize| -> Result<Vec<(SumOfExponentials, Option<f32>)>> {
            let ids = *first..vocabulary.min(first + VOCABULARY);
            pool.with(|[logits, weights]| {
                let logits = ops::at_least(logits, targets.len() * ids.len());
                ops::read_rows(weight, ids.clone(), weights, |weights| {
                    let weights = Matrix::dense(weights, ids.len(), width);
                    ops::multiply(hidden, weights.t(), 1.0, logits, Update::Replace, Cores::One);
                })?;
                let row = |(logits, target): (&[f32], &Target)| {
                    let own = (target.id as usize).checked_sub(ids.start).and_then(|place| logits.get(place));
                    (SumOfExponentials::new(logits), own.copied())
                };
                Ok(logits.chunks_exact(ids.len()).zip(targets).map(row).collect())
            })
        };
        let parts = firsts.par_iter().map(part).collect::<Result<Vec<_>>>()?;
        for (row, target) in targets.iter().enumerate() {
            let merged = parts
                .iter()
                .map(|part| part[row])
                .reduce(|(sum, own), (other_sum, other_own)| (sum.merge(other_sum), own.or(other_own)));
            let Some((sum, Some(logit))) = merged else {
                let message = format!("expected a token id below {vocabulary}, found {}", target.id);
                return Err(candle_core::Error::msg(message).into());
            };
            let (log_sum, entropy) = sum.finish();
            scores.push(TokenScore { surprisal: log_sum - logit, entropy });
        }
        Ok(())
    }

    /// Returns the logits of hidden states, [rows, hidden], as [rows, vocabulary].
    pub fn logits(&self, hidden: &Tensor) -> Result<Vec<f32>> {
        let weight = self.weights.output();
        let (rows, vocabulary) = (hidden.dim(0)?, weight.dim(0)?);
        #[cfg(test)]
        self.output_rows.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
        let mut logits = vec![0.0; rows * vocabulary];
        ops::read([hidden], |[hidden]| {
            ops::multiply_stored(weight, hidden, &mut logits, Update::Replace, Cores::All)
        })??;
        Ok(logits)
    }
}
