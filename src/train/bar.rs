//! Progress of training on stderr: a bar on a terminal, else a line every 30 seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::metrics::Line;
use crate::output::{complain, count};

const LINES: Duration = Duration::from_secs(30);
const LAST: f64 = 0.1;

pub(super) struct Bar {
    bar: Option<ProgressBar>,
    loss: Option<f64>,
    begun: Instant,
    told: Instant,
    tokens: usize,
    steps: u64,
    all: Option<u64>,
}

impl Bar {
    pub(super) fn new(all: Option<u64>, made: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(all, ProgressDrawTarget::stderr()).with_position(made);
            let style = ProgressStyle::with_template("training {bar:30} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { bar, loss: None, begun: Instant::now(), told: Instant::now(), tokens: 0, steps: 0, all }
    }

    pub(super) fn advance(&mut self, line: &Line) {
        self.tokens += line.tokens;
        self.steps += 1;
        self.loss = Some(self.loss.map_or(line.loss, |loss| loss + LAST * (line.loss - loss)));
        let text = self.line(line);
        match &self.bar {
            Some(bar) => {
                bar.set_position(line.step);
                bar.set_message(text);
            }
            None if self.told.elapsed() >= LINES => {
                self.told = Instant::now();
                complain(&format!("training: {text}"));
            }
            None => {}
        }
    }

    fn line(&self, Line { step, rate, norm, share_of_peak, .. }: &Line) -> String {
        let seconds = self.begun.elapsed().as_secs_f64().max(0.001);
        let of = self.all.map_or(String::new(), |all| format!(" of {}", count(all)));
        let mut text = format!(
            "step {}{of}, loss {:.3}, rate {rate:.2e}, norm {norm:.2}, {} tokens/s, {:.0} % of peak",
            count(*step),
            self.loss.unwrap_or_default(),
            count((self.tokens as f64 / seconds) as u64),
            100.0 * share_of_peak
        );
        if let Some(left) = self.all.map(|all| all.saturating_sub(*step)).filter(|left| *left > 0) {
            let left = seconds / self.steps as f64 * left as f64;
            text += &format!(", {} left", humantime::format_duration(Duration::from_secs(left.ceil() as u64)));
        }
        text
    }

    pub(super) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| complain(line)),
            None => complain(line),
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
