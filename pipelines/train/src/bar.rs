//! Progress of training on stderr: a bar on a terminal, else a line every 30 seconds.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::metrics::Line;
use crate::output::{IS_QUIET, count, tell};
use crate::progress::{LINES, draw, style};

const LAST: f64 = 0.1;

pub(super) struct Bar {
    bar: Option<ProgressBar>,
    loss: Option<f64>,
    begun: Instant,
    shown: Instant,
    tokens: usize,
    steps: u64,
    all: Option<u64>,
}

impl Bar {
    pub(super) fn new(all: Option<u64>, made: u64) -> Self {
        let draw = || draw(all, style("training {bar:30} {msg}")).with_position(made);
        let is_shown = std::io::stderr().is_terminal() && !IS_QUIET.load(Ordering::Relaxed);
        let (bar, now) = (is_shown.then(draw), Instant::now());
        Self { bar, loss: None, begun: now, shown: now, tokens: 0, steps: 0, all }
    }

    pub(super) fn advance(&mut self, line: &Line) {
        self.tokens += line.tokens;
        self.steps += 1;
        self.loss = Some(self.loss.map_or(line.loss, |loss| loss + LAST * (line.loss - loss)));
        if let Some(bar) = &self.bar {
            bar.set_position(line.step);
            bar.set_message(self.line(line));
        } else if self.shown.elapsed() >= LINES {
            self.shown = Instant::now();
            tell(&format!("training: {}", self.line(line)));
        }
    }

    fn line(&self, Line { step, rate, norm, share_of_peak, .. }: &Line) -> String {
        let seconds = self.begun.elapsed().as_secs_f64().max(0.001);
        let of = self.all.map_or(String::new(), |all| format!(" of {}", count(all)));
        let (done, loss) = (count(*step), self.loss.unwrap_or_default());
        let (speed, share) = (count((self.tokens as f64 / seconds) as u64), 100.0 * share_of_peak.unwrap_or_default());
        let mut text = format!(
            "step {done}{of}, loss {loss:.3}, rate {rate:.2e}, norm {norm:.2}, {speed} tokens/s, {share:.0} % of peak"
        );
        if let Some(left) = self.all.map(|all| all.saturating_sub(*step)).filter(|left| *left > 0) {
            let left = seconds / self.steps as f64 * left as f64;
            text += &format!(", {} left", humantime::format_duration(Duration::from_secs(left.ceil() as u64)));
        }
        text
    }
}
