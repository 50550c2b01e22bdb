//! Progress of training: on standard error, and only on a terminal.

use std::time::Duration;

use asap_lm::train::Step;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How much of the shown loss is the last step's.
const LAST: f64 = 0.1;

/// A bar with steps, loss, tokens per second and time left.
pub struct Bar {
    bar: ProgressBar,
    loss: Option<f64>,
    tokens: usize,
}

impl Bar {
    /// A bar that appears with the first step.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let template = "training {bar:30} {human_pos}/{human_len} steps, {msg}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, loss: None, tokens: 0 }
    }

    /// Shows a step that was made.
    pub fn advance(&mut self, step: &Step) {
        if self.loss.is_none() {
            self.bar.set_length(step.total as u64);
            self.bar.enable_steady_tick(Duration::from_millis(500));
        }
        self.tokens += step.tokens;
        let loss = self.loss.map_or(step.loss, |loss| loss + LAST * (step.loss - loss));
        self.loss = Some(loss);
        let rate = self.tokens as f64 / self.bar.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!("loss {loss:.3}, {rate:.0} tokens/s"));
        self.bar.set_position(step.done as u64);
    }

    /// Takes the bar off the terminal.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
