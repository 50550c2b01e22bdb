//! What training gave, for people and for machines.

use asap_lm::train::Measured;
use serde::{Deserialize, Serialize};

use crate::output::count;

/// The result of a training.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrainingSummary {
    /// The folder of the model.
    pub out: String,
    /// The version of the table whose rows were learned; of other files a number that stands for them.
    pub version: u64,
    /// Rows without a question or a chain, or that the chat template refuses.
    pub rows_rejected: u64,
    /// Rows that were learned.
    pub traces: u64,
    /// Of these, rows that were cut at the greatest length.
    pub traces_cut: u64,
    /// Rows of too many tokens.
    pub traces_left_out: u64,
    /// Numbers of the model.
    pub parameters: u64,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// What was learned.
    #[serde(flatten)]
    pub learning: Learning,
    /// The model as it was stored, on the rows that were held out.
    pub held_out: Option<HeldOut>,
    /// Tokens of training in a second, prompts included.
    pub tokens_per_second: f64,
    /// Seconds of the process that finished it.
    pub seconds: f64,
}

/// Steps, tokens and loss.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Learning {
    /// Steps of the optimizer.
    pub steps: u64,
    /// Tokens that went through the model, prompts included.
    pub tokens: u64,
    /// Mean −ln P over the tokens to learn of the last epoch, in nats.
    pub loss: f64,
    /// The last epoch, from 0.
    pub epoch: u64,
    /// Tokens to learn of the last epoch.
    pub epoch_learned: u64,
}

impl Learning {
    /// Counts a step of an epoch: its loss, its tokens, and those to learn.
    pub fn advance(&mut self, (loss, tokens, learned): (f64, usize, usize), epoch: u64) {
        if epoch != self.epoch {
            (self.epoch, self.epoch_learned, self.loss) = (epoch, 0, 0.0);
        }
        self.steps += 1;
        self.tokens += tokens as u64;
        self.epoch_learned += learned as u64;
        self.loss += (loss - self.loss) * learned as f64 / self.epoch_learned as f64;
    }
}

/// A model measured on rows that it did not learn.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeldOut {
    /// Rows.
    pub traces: usize,
    /// Tokens of their chains and answers.
    pub tokens: usize,
    /// Mean −ln P of a token, in nats, by the model as it was stored.
    pub surprisal: f64,
    /// Entropy of the tokens' frequencies, in nats.
    pub unigram_entropy: f64,
    /// Mean −ln P of a token by the model before training.
    pub before: f64,
    /// The same after each epoch but the last. Empty where a table was followed: which rows are held out was known in the end.
    pub after_epochs: Vec<f64>,
}

impl HeldOut {
    /// What was measured in the end, and before: of the model that training began with, then after each epoch.
    pub fn new(measured: Measured, before: f64, after_epochs: Vec<f64>) -> Self {
        let Measured { examples, tokens, surprisal, unigram_entropy } = measured;
        Self { traces: examples, tokens, surprisal, unigram_entropy, before, after_epochs }
    }

    /// The losses in their order, as a person reads them.
    pub fn course(&self) -> String {
        let epochs =
            self.after_epochs.iter().enumerate().map(|(epoch, nats)| format!("{nats:.3} after epoch {}, ", epoch + 1));
        format!("{:.3} before training, {}{:.3} in the end", self.before, epochs.collect::<String>(), self.surprisal)
    }
}

impl TrainingSummary {
    /// As a person reads it.
    pub fn table(&self) -> String {
        let Self { out, traces, traces_cut, traces_left_out, rows_rejected, learning, .. } = self;
        let mut lines = vec![
            format!("{out}: {:.2} million parameters, {} tokens", self.parameters as f64 / 1e6, self.vocabulary),
            format!(
                "rows       {} learned, {} of them cut, {} too long, {} without a chain",
                count(*traces),
                count(*traces_cut),
                count(*traces_left_out),
                count(*rows_rejected)
            ),
            format!(
                "training   {} steps, {} tokens, loss {:.3} nats a token in the last epoch",
                count(learning.steps),
                count(learning.tokens),
                learning.loss
            ),
        ];
        if let Some(held @ HeldOut { traces, tokens, unigram_entropy, .. }) = &self.held_out {
            lines.push(format!(
                "held out   {traces} rows, {} tokens: nats a token {}; unigram entropy {unigram_entropy:.3}",
                count(*tokens as u64),
                held.course()
            ));
        }
        lines.push(format!("time       {:.1} s, {:.0} tokens a second", self.seconds, self.tokens_per_second));
        lines.join("\n")
    }
}
