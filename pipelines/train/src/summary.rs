//! The summary of a training, for people and programs.

use asap_pipelines::reasons::Reasons;
use serde::{Deserialize, Serialize};

use crate::output::{count, reasons};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrainingSummary {
    pub out: String,
    /// The version of the training table; for other files, their fingerprint.
    pub version: u64,
    pub rows_rejected: u64,
    #[serde(default)]
    pub rejected_because: Reasons,
    /// Examples whose system prompt the chat template does not print.
    #[serde(default)]
    pub rows_without_system: u64,
    pub traces: u64,
    pub traces_cut: u64,
    pub traces_left_out: u64,
    pub parameters: u64,
    pub vocabulary: usize,
    #[serde(flatten)]
    pub learning: Learning,
    pub held_out: Option<HeldOut>,
    pub tokens_per_second: f64,
    pub seconds: f64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Learning {
    pub steps: u64,
    pub tokens: u64,
    pub loss: f64,
    pub epoch: u64,
    pub epoch_learned: u64,
}

impl Learning {
    /// Adds a step of an epoch: its loss, its tokens, and its target tokens.
    pub(crate) fn advance(&mut self, (loss, tokens, learned): (f64, usize, usize), epoch: u64) {
        if epoch != self.epoch {
            (self.epoch, self.epoch_learned, self.loss) = (epoch, 0, 0.0);
        }
        self.steps += 1;
        self.tokens += tokens as u64;
        self.epoch_learned += learned as u64;
        self.loss += (loss - self.loss) * learned as f64 / self.epoch_learned as f64;
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeldOut {
    pub traces: usize,
    pub tokens: usize,
    /// Mean −ln P per token, in nats, of the stored model.
    pub surprisal: f64,
    pub unigram_entropy: f64,
    pub before: f64,
    /// The same after each epoch except the last. Empty with `--follow`, where held-out rows are known only at the end.
    pub after_epochs: Vec<f64>,
}

impl HeldOut {
    pub(super) fn course(&self) -> String {
        let epochs =
            self.after_epochs.iter().enumerate().map(|(epoch, nats)| format!("{nats:.3} after epoch {}, ", epoch + 1));
        format!("{:.3} before training, {}{:.3} at the end", self.before, epochs.collect::<String>(), self.surprisal)
    }
}

impl TrainingSummary {
    pub(crate) fn table(&self) -> String {
        let Self { out, vocabulary, traces, traces_cut, traces_left_out, rows_rejected, .. } = self;
        let [rows, cut, long, rejected] = [traces, traces_cut, traces_left_out, rows_rejected].map(|rows| count(*rows));
        let why = reasons(&self.rejected_because);
        let Learning { steps, tokens, loss, .. } = self.learning;
        let [steps, tokens] = [steps, tokens].map(count);
        let mut lines = vec![
            format!("{out}: {:.2} million parameters, {vocabulary} tokens", self.parameters as f64 / 1e6),
            format!("rows       {rows} learned, {cut} of them cut, {long} too long, {rejected} rejected{why}"),
            format!("training   {steps} steps, {tokens} tokens, loss {loss:.3} nats per token in the last epoch"),
        ];
        if let Some(held @ HeldOut { traces, tokens, unigram_entropy, .. }) = &self.held_out {
            let (tokens, course) = (count(*tokens as u64), held.course());
            lines.push(format!(
                "held out   {traces} rows, {tokens} tokens: nats per token {course}; unigram entropy {unigram_entropy:.3}"
            ));
        }
        lines.push(format!("time       {:.1} s, {:.0} tokens per second", self.seconds, self.tokens_per_second));
        lines.join("\n")
    }
}
