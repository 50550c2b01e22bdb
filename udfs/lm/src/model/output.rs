//! The output layer, for requested rows only.

use std::ops::Range;

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use crate::Result;
use crate::backend::{Target, TokenScore};
use crate::model::decoder::Decoder;
use crate::ops::{self, Cores, Matrix, Pool, Projection, SumOfExponentials, Update, count_above};

const ROWS: usize = 512;
const VOCABULARY: usize = 1024;
/// Rows whose targets' logits are computed together, before all others.
const OWN_ROWS: usize = 16;

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
    /// vocabulary at a time. Logits, softmax and entropy are f32. Ranks need the logits of the targets first.
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
        let own = self.own_logits(hidden, targets)?;
        let hidden = Matrix::dense(hidden, targets.len(), width);
        let pool = Pool::<[Vec<f32>; 2]>::default();
        let firsts: Vec<usize> = (0..vocabulary).step_by(VOCABULARY).collect();
        let part = |first: &usize| -> Result<Vec<(SumOfExponentials, u32)>> {
            let ids = *first..vocabulary.min(first + VOCABULARY);
            pool.with(|[logits, weights]| {
                let logits = ops::at_least(logits, targets.len() * ids.len());
                ops::read_rows(weight, ids.clone(), weights, |weights| {
                    let weights = Matrix::dense(weights, ids.len(), width);
                    ops::multiply(hidden, weights.t(), 1.0, logits, Update::Replace, Cores::One);
                })?;
                let row = |(logits, own): (&[f32], &f32)| (SumOfExponentials::new(logits), count_above(logits, *own));
                Ok(logits.chunks_exact(ids.len()).zip(&own).map(row).collect())
            })
        };
        let parts = firsts.par_iter().map(part).collect::<Result<Vec<_>>>()?;
        for (row, logit) in own.iter().enumerate() {
            let of_row = parts.iter().map(|part| part[row]);
            let merged = of_row.reduce(|(sum, above), (other, more)| (sum.merge(other), above + more));
            let (log_sum, entropy, above) = merged.map_or((f32::NAN, f32::NAN, 0), |(sum, above)| {
                let (log_sum, entropy) = sum.finish();
                (log_sum, entropy, above)
            });
            scores.push(TokenScore { surprisal: log_sum - logit, entropy, rank: 1 + above });
        }
        Ok(())
    }

    /// Returns the logit of each target, to the last bit as a product with the whole vocabulary gives it.
    fn own_logits(&self, hidden: &[f32], targets: &[Target]) -> Result<Vec<f32>> {
        let weight = self.weights.output();
        let (vocabulary, width) = weight.dims2()?;
        let block = |(rows, targets): (&[f32], &[Target])| -> Result<Vec<f32>> {
            let (mut own, mut widened) = (Vec::with_capacity(rows.len()), Vec::new());
            for id in targets.iter().map(|target| target.id as usize) {
                if id >= vocabulary {
                    let message = format!("expected a token id below {vocabulary}, found {id}");
                    return Err(candle_core::Error::msg(message).into());
                }
                ops::read_rows(weight, id..id + 1, &mut widened, |row| own.extend_from_slice(row))?;
            }
            let count = targets.len();
            let mut logits = vec![0.0; count * count];
            let (rows, own) = (Matrix::dense(rows, count, width), Matrix::dense(&own, count, width));
            ops::multiply(rows, own.t(), 1.0, &mut logits, Update::Replace, Cores::One);
            Ok(logits.into_iter().step_by(count + 1).collect())
        };
        let blocks = hidden.par_chunks(OWN_ROWS * width).zip(targets.par_chunks(OWN_ROWS));
        Ok(blocks.map(block).collect::<Result<Vec<_>>>()?.concat())
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
