//! Training steps: forward and backward passes over examples, then the optimizer.

use std::path::Path;

use super::flops::flops;
use super::optimizer::{Moments, change};
use super::stored::{self, TensorData};
use super::{Activations, AdamW, AdamWConfig, Batch, Example, Gradient, Keep, Precision, measure};
use crate::backend::IsWanted;
use crate::model::decoder::Decoder;
use crate::model::pass::groups;
use crate::{LmError, Result};

const STATE_FILES: [&str; 2] = ["weights.safetensors", "moments.safetensors"];

#[derive(Debug, Clone, PartialEq)]
pub struct TrainerConfig {
    pub optimizer: AdamWConfig,
    /// Most tokens per forward pass; a longer example has its own pass.
    pub pass_tokens: usize,
    pub keep: Keep,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TrainingStep {
    /// Mean −ln P over the target tokens, in nats.
    pub loss: f64,
    /// Gradient norm before clipping.
    pub norm: f64,
    /// Number of tokens, including prompts.
    pub tokens: usize,
    /// Number of target tokens.
    pub learned: usize,
    /// Minimum floating-point operations of the step.
    pub flops: f64,
}

/// A model in training. The same model and steps give bit-identical weights on any number of cores.
#[derive(Debug)]
pub struct Trainer {
    decoder: Decoder,
    optimizer: AdamW,
    sum: Gradient,
    activations: Activations,
    pass_tokens: usize,
}

impl Trainer {
    pub fn new(decoder: Decoder, config: TrainerConfig) -> Self {
        let TrainerConfig { optimizer, pass_tokens, keep } = config;
        let optimizer = AdamW::new(optimizer, &decoder.weights);
        let sum = Gradient::zeros(&decoder.weights);
        Self { decoder, optimizer, sum, activations: Activations::new(keep), pass_tokens }
    }

    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    pub fn steps(&self) -> u64 {
        self.optimizer.steps
    }

    /// Runs one optimizer step with gradient accumulation. The loss is the mean over the step's target tokens.
    ///
    /// # Errors
    /// If a token is not in the model's vocabulary, [`LmError::Diverged`] if the loss or its gradient is not finite, and
    /// [`LmError::Abandoned`] once `is_wanted` returns false. Each of these leaves the weights unchanged.
    pub fn step(&mut self, examples: &[Example], rate: f64, is_wanted: &IsWanted) -> Result<TrainingStep> {
        let learned: usize = examples.iter().map(|example| example.learned_tokens()).sum();
        self.sum.clear();
        let (mut nats, mut tokens, mut operations) = (0.0, 0, 0.0);
        for pass in groups(examples, |example| example.ids.len(), self.pass_tokens) {
            let batch = Batch::new(pass);
            nats += self.activations.gradient(&self.decoder, &batch, 1.0 / learned as f32, &mut self.sum, is_wanted)?;
            tokens += pass.iter().map(|example| example.ids.len()).sum::<usize>();
            operations += flops(&self.decoder.config, &batch);
        }
        let norm = self.sum.norm();
        if !nats.is_finite() || !norm.is_finite() {
            return Err(LmError::Diverged { steps: self.steps() as usize });
        }
        self.optimizer.step(&self.decoder.weights, &self.sum, norm, rate)?;
        Ok(TrainingStep { loss: nats / learned as f64, norm, tokens, learned, flops: operations })
    }

    /// Returns [`LmError::Diverged`] unless the current weights give this example a finite loss.
    pub fn check(&self, example: &Example) -> Result<()> {
        match measure(&self.decoder, std::slice::from_ref(example))?.surprisal.is_finite() {
            true => Ok(()),
            false => Err(LmError::Diverged { steps: self.steps() as usize }),
        }
    }

    /// Returns the model and frees the training state.
    pub fn into_decoder(self) -> Decoder {
        self.decoder
    }

    /// Writes weights and moments to a folder. Training resumes from them bit for bit.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let [weights, moments] = STATE_FILES.map(|name| folder.join(name));
        let named = self.decoder.weights.named();
        let parts: Vec<TensorData> =
            named.iter().map(|(name, tensor)| TensorData::of_tensor(name, tensor, Precision::F32)).collect();
        stored::write(&parts, &weights)?;
        let parts = named.iter().zip(&self.optimizer.moments).flat_map(|((name, _), Moments { first, second, .. })| {
            [("first", first), ("second", second)]
                .map(|(which, values)| TensorData::of_numbers(&format!("{which}.{name}"), values))
        });
        stored::write(&parts.collect::<Vec<_>>(), &moments)
    }

    /// Restores what [`Trainer::save`] wrote after `steps` steps.
    pub fn restore(&mut self, folder: &Path, steps: u64) -> Result<()> {
        let [weights, moments] = STATE_FILES.map(|name| folder.join(name));
        let names: Vec<String> = self.decoder.weights.named().into_iter().map(|(name, _)| name).collect();
        let read = stored::Numbers::open(&weights)?;
        for ((_, tensor), name) in self.decoder.weights.named().into_iter().zip(&names) {
            change(tensor, |values| read.read(name, values))??;
        }
        let read = stored::Numbers::open(&moments)?;
        for (name, Moments { first, second, .. }) in names.iter().zip(&mut self.optimizer.moments) {
            read.read(&format!("first.{name}"), first)?;
            read.read(&format!("second.{name}"), second)?;
        }
        self.optimizer.steps = steps;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden;

    fn trainer(model: &str, pass_tokens: usize, keep: Keep) -> Trainer {
        let optimizer = AdamWConfig { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, clip: 1.0 };
        Trainer::new(Decoder::load(&golden(model)).unwrap(), TrainerConfig { optimizer, pass_tokens, keep })
    }

    fn examples() -> Vec<Example> {
        let ids = |i: u32| (0..90 + 40 * i).map(|j| j * (i + 1) % 50).collect();
        let mut examples: Vec<_> = (0..6).map(|i| Example::new(ids(i), 3)).collect();
        examples[2].learned = vec![4..9, 40..41, 80..170];
        examples
    }

    fn numbers(trainer: &Trainer) -> Vec<Vec<f32>> {
        let weights = trainer.decoder().weights.named();
        weights.into_iter().map(|(_, tensor)| tensor.flatten_all().unwrap().to_vec1().unwrap()).collect()
    }

    #[test]
    fn how_examples_are_packed_changes_no_result() {
        let examples = examples();
        let tokens = |example: &Example| example.ids.len();
        let lengths = |most| groups(&examples, tokens, most).map(<[Example]>::len).collect::<Vec<_>>();
        assert_eq!((lengths(1), lengths(220), lengths(10_000)), (vec![1; 6], vec![2, 1, 1, 1, 1], vec![6]));
        let mut alone = trainer("llama", 1, Keep::All);
        let mut together = trainer("llama", 10_000, Keep::All);
        let (a, b) =
            (alone.step(&examples, 1e-3, &|| true).unwrap(), together.step(&examples, 1e-3, &|| true).unwrap());
        assert!((a.loss - b.loss).abs() < 1e-6 && (a.norm - b.norm).abs() < 1e-5 * b.norm, "{a:?} {b:?}");
        assert_eq!((a.tokens, a.learned), (b.tokens, b.learned));
    }

    /// Abandons either in the first layer or, with `--keep`, late in the backward pass.
    #[test]
    fn a_step_that_no_one_waits_for_changes_nothing() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let fresh = || trainer("qwen2", 400, Keep::All);
        let asked = AtomicUsize::new(0);
        let mut whole = fresh();
        let count = || asked.fetch_add(1, Ordering::Relaxed) < usize::MAX;
        whole.step(&examples(), 1e-3, &count).unwrap();
        let times = asked.into_inner();
        assert!(times > 8, "asked {times} times");
        for left in [0, times / 2, times - 1] {
            let (mut abandoned, left) = (fresh(), AtomicUsize::new(left));
            let before = numbers(&abandoned);
            let is_wanted =
                || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
            assert!(matches!(abandoned.step(&examples(), 1e-3, &is_wanted), Err(LmError::Abandoned)));
            assert_eq!((abandoned.steps(), numbers(&abandoned)), (0, before));
            abandoned.step(&examples(), 1e-3, &|| true).unwrap();
            assert_eq!(numbers(&abandoned), numbers(&whole));
        }
    }

    #[test]
    fn a_loss_that_is_no_number_changes_nothing() {
        let mut trainer = trainer("qwen2", 400, Keep::All);
        trainer.check(&examples()[0]).unwrap();
        trainer.step(&examples(), 1e30, &|| true).unwrap();
        assert!(matches!(trainer.check(&examples()[0]), Err(LmError::Diverged { steps: 1 })));
        let before = numbers(&trainer);
        assert!(matches!(trainer.step(&examples(), 1e-3, &|| true), Err(LmError::Diverged { steps: 1 })));
        assert_eq!(format!("{before:?}"), format!("{:?}", numbers(&trainer)));
    }
}
