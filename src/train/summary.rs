//! What training gave, for people and for machines.

use asap_lm::train::{Measured, Step};
use serde::Serialize;

/// The result of a training.
#[derive(Debug, Serialize)]
pub struct TrainingSummary {
    /// The folder of the model.
    pub out: String,
    /// Rows without a chain to learn.
    pub rows_rejected: usize,
    /// Traces that were learned.
    pub traces: usize,
    /// Of these, traces that were cut at the greatest length.
    pub traces_cut: usize,
    /// Traces whose question alone is longer than the greatest length.
    pub traces_left_out: usize,
    /// Numbers of the model.
    pub parameters: usize,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// What was learned.
    #[serde(flatten)]
    pub learning: Learning,
    /// The model as it was stored, on the traces that were held back.
    pub held_back: Option<HeldBack>,
    /// Tokens of training in a second, prompts included.
    pub tokens_per_second: f64,
    /// From the first row read to the last file written.
    pub seconds: f64,
}

/// Steps, tokens and loss.
#[derive(Debug, Default, Serialize)]
pub struct Learning {
    /// Steps of the optimizer.
    pub steps: usize,
    /// Tokens that went through the model, prompts included.
    pub tokens: usize,
    /// Mean −ln P over the tokens to learn of the last epoch, in nats.
    pub loss: f64,
    #[serde(skip)]
    epoch: usize,
    #[serde(skip)]
    epoch_tokens: usize,
}

impl Learning {
    /// Counts a step.
    pub fn advance(&mut self, step: &Step) {
        if step.epoch != self.epoch {
            (self.epoch, self.epoch_tokens, self.loss) = (step.epoch, 0, 0.0);
        }
        self.steps = step.done;
        self.tokens += step.tokens;
        self.epoch_tokens += step.learned;
        self.loss += (step.loss - self.loss) * step.learned as f64 / self.epoch_tokens as f64;
    }
}

/// A model measured on traces that it did not learn.
#[derive(Debug, Serialize)]
pub struct HeldBack {
    /// Traces.
    pub traces: usize,
    /// Tokens of their chains and answers.
    pub tokens: usize,
    /// Mean −ln P of a token, in nats.
    pub surprisal: f64,
    /// Entropy of the tokens' frequencies, in nats.
    pub unigram_entropy: f64,
}

impl From<Measured> for HeldBack {
    fn from(measured: Measured) -> Self {
        let Measured { examples, tokens, surprisal, unigram_entropy } = measured;
        Self { traces: examples, tokens, surprisal, unigram_entropy }
    }
}

impl TrainingSummary {
    /// As a person reads it.
    pub fn table(&self) -> String {
        let Self { out, traces, traces_cut, traces_left_out, rows_rejected, learning, .. } = self;
        let Learning { steps, tokens, loss, .. } = learning;
        let mut lines = vec![
            format!("{out}: {:.2} million parameters, {} tokens", self.parameters as f64 / 1e6, self.vocabulary),
            format!(
                "traces     {traces} learned, {traces_cut} of them cut, {traces_left_out} left out, {rows_rejected} rows without a chain"
            ),
            format!("training   {steps} steps, {tokens} tokens, loss {loss:.3} nats a token in the last epoch"),
        ];
        if let Some(HeldBack { traces, tokens, surprisal, unigram_entropy }) = &self.held_back {
            lines.push(format!(
                "held back  {traces} traces, {tokens} tokens: surprisal {surprisal:.3} nats a token, unigram entropy {unigram_entropy:.3}"
            ));
        }
        lines.push(format!("time       {:.1} s, {:.0} tokens a second", self.seconds, self.tokens_per_second));
        lines.join("\n")
    }
}
