//! How well a model predicts traces, compared with token frequencies alone.

use std::collections::BTreeMap;

use super::{Batch, Example};
use crate::Result;
use crate::backend::Target;
use crate::model::decoder::Decoder;

#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub examples: usize,
    /// Number of learned tokens.
    pub tokens: usize,
    /// Mean −ln P per token, in nats.
    pub surprisal: f64,
    /// Entropy of the token frequencies, in nats: the mean −ln P of the best model that uses frequencies only.
    pub unigram_entropy: f64,
}

pub fn measure(decoder: &Decoder, examples: &[Example]) -> Result<Measured> {
    let mut nats = 0.0;
    let mut counts = BTreeMap::new();
    for example in examples {
        let batch = Batch::new([example]);
        let hidden = decoder.hidden(&batch.ids, &batch.lengths)?;
        let targets = batch.rows.iter().zip(&batch.targets).map(|(row, id)| Target { row: *row, id: *id });
        let scores = decoder.score(&hidden, &targets.collect::<Vec<_>>())?;
        nats += scores.iter().map(|score| f64::from(score.surprisal)).sum::<f64>();
        batch.targets.iter().for_each(|id| *counts.entry(*id).or_insert(0_u64) += 1);
    }
    let tokens: u64 = counts.values().sum();
    let term = |count: &u64| {
        let share = *count as f64 / tokens as f64;
        -share * share.ln()
    };
    let unigram_entropy = counts.values().map(term).sum();
    let surprisal = nats / (tokens.max(1)) as f64;
    Ok(Measured { examples: examples.len(), tokens: tokens as usize, surprisal, unigram_entropy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden;
    use crate::train::{Activations, Gradient, Keep};

    #[test]
    fn surprisal_is_the_loss_and_entropy_that_of_the_frequencies() {
        let decoder = Decoder::load(&golden("qwen2")).unwrap();
        let examples = [Example::new(vec![7, 1, 2, 1, 2], 1), Example::new(vec![9, 8, 3, 4, 3, 4], 2)];
        let measured = measure(&decoder, &examples).unwrap();
        let mut sum = Gradient::zeros(&decoder.weights);
        let nats =
            Activations::new(Keep::All).gradient(&decoder, &Batch::new(&examples), 1.0, &mut sum, &|| true).unwrap();
        assert_eq!((measured.examples, measured.tokens), (2, 8));
        assert!((measured.surprisal - nats / 8.0).abs() < 1e-5);
        assert!((measured.unigram_entropy - 4.0_f64.ln()).abs() < 1e-12);
    }
}
