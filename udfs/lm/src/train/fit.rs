//! Steps over examples, epoch by epoch.

use super::{Activations, AdamW, AdamWConfig, Batch, Example, Gradient, Keep, Schedule, random};
use crate::decoder::Decoder;
use crate::{LmError, Result};

/// The part of all steps that warms up.
const WARMUP: f64 = 0.03;
/// The learning rate after the last step, as a part of the highest.
const FLOOR: f64 = 0.1;

/// How to train.
#[derive(Debug, Clone, PartialEq)]
pub struct FitConfig {
    /// How often each example is seen.
    pub epochs: usize,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Examples that go through the model together; at least 1.
    pub micro_batch: usize,
    /// Micro-batches of a step; at least 1.
    pub accumulate: usize,
    /// Of the order of examples.
    pub seed: u64,
    /// The gradient's norm over all weights is brought down to this.
    pub clip: f64,
    /// What is kept of the forward pass.
    pub keep: Keep,
}

/// A step that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Steps made, this one included.
    pub done: usize,
    /// Steps in all.
    pub total: usize,
    /// The epoch that it belongs to, from 0.
    pub epoch: usize,
    /// Mean −ln P over the step's tokens to learn, in nats.
    pub loss: f64,
    /// The gradient's norm before clipping.
    pub norm: f64,
    /// Tokens of the step, prompts included.
    pub tokens: usize,
    /// Tokens to learn among them.
    pub learned: usize,
}

/// Trains a model on examples, in an order drawn from the seed. The same model, examples and configuration give the same
/// weights to the last bit, on any number of cores.
///
/// # Errors
/// If a token is not in the model's vocabulary, or the loss becomes infinite or not a number.
pub fn fit(
    decoder: &mut Decoder,
    examples: &[Example],
    config: &FitConfig,
    mut report: impl FnMut(Step),
) -> Result<()> {
    let step_examples = config.micro_batch * config.accumulate;
    let total = examples.len().div_ceil(step_examples) * config.epochs;
    let warmup_steps = (total as f64 * WARMUP).ceil() as usize;
    let schedule = Schedule { peak: config.learning_rate, floor: FLOOR, warmup_steps, total_steps: total };
    let constants = AdamWConfig { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, clip: config.clip };
    let mut optimizer = AdamW::new(constants, &decoder.weights);
    let mut sum = Gradient::zeros(&decoder.weights);
    let mut activations = Activations::new(config.keep);
    let mut done = 0;
    for epoch in 0..config.epochs {
        let order = random::order(examples.len(), config.seed, epoch as u64);
        for indices in order.chunks(step_examples) {
            let learned: usize = indices.iter().map(|index| examples[*index].response().len()).sum();
            sum.clear();
            let (mut nats, mut tokens) = (0.0, 0);
            for indices in indices.chunks(config.micro_batch) {
                let batch = Batch::new(indices.iter().map(|index| &examples[*index]));
                nats += activations.gradient(decoder, &batch, 1.0 / learned as f32, &mut sum)?;
                tokens += batch.ids.len();
            }
            let norm = sum.norm();
            if !nats.is_finite() || !norm.is_finite() {
                return Err(LmError::Diverged { steps: done });
            }
            optimizer.step(&decoder.weights, &sum, norm, schedule.rate(done))?;
            done += 1;
            report(Step { done, total, epoch, loss: nats / learned as f64, norm, tokens, learned });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden;

    fn trained(threads: usize, seed: u64, keep: Keep) -> (Vec<Step>, Vec<Vec<f32>>) {
        let mut decoder = Decoder::load(&golden("qwen2")).unwrap();
        let examples: Vec<Example> = (0..6)
            .map(|i| Example { ids: (0..90 + 40 * i).map(|j| (j * (i + 1) % 50) as u32).collect(), prompt: 3 })
            .collect();
        let config = FitConfig { epochs: 3, learning_rate: 3e-3, micro_batch: 2, accumulate: 2, seed, clip: 1.0, keep };
        let mut steps = Vec::new();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fit(&mut decoder, &examples, &config, |step| steps.push(step))).unwrap();
        let numbers = |tensor: &candle_core::Tensor| tensor.flatten_all().unwrap().to_vec1().unwrap();
        (steps, decoder.weights.named().into_iter().map(|(_, tensor)| numbers(tensor)).collect())
    }

    #[test]
    fn training_is_the_same_on_any_number_of_cores_and_whatever_is_kept_and_lowers_the_loss() {
        let (steps, weights) = trained(1, 5, Keep::All);
        for keep in Keep::ALL {
            assert_eq!((&steps, &weights), (&trained(3, 5, keep).0, &trained(3, 5, keep).1), "{keep:?}");
        }
        assert_eq!(steps.len(), 6);
        assert!(steps[5].loss < 0.8 * steps[0].loss, "{steps:?}");
        assert_eq!(steps.iter().map(|step| step.tokens).sum::<usize>(), 3 * (0..6).map(|i| 89 + 40 * i).sum::<usize>());
        assert_ne!(weights, trained(3, 6, Keep::All).1);
    }
}
