//! Progress of long work: on standard error, and only on a terminal.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use asap_pipelines::run::{Observer, Summary};
use asap_udfs::llm::Usage;

/// A bar with rows, rates and time left.
pub struct Bar {
    verb: &'static str,
    bar: OnceLock<ProgressBar>,
    tokens: std::sync::Arc<AtomicU64>,
    /// Slices that there are.
    all: AtomicU64,
}

impl Bar {
    /// A bar that appears when work begins. `verb` says what is being done.
    pub fn new(verb: &'static str) -> Self {
        Self { verb, bar: OnceLock::new(), tokens: Default::default(), all: AtomicU64::new(0) }
    }

    /// Takes the bar off the terminal.
    pub fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    fn style(&self) -> ProgressStyle {
        let tokens = std::sync::Arc::clone(&self.tokens);
        let template = "{msg} {bar:30} {human_pos}/{human_len} rows, {tokens_per_second}, {eta} left";
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).with_key(
            "tokens_per_second",
            move |state: &ProgressState, line: &mut dyn std::fmt::Write| {
                let seconds = state.elapsed().as_secs_f64().max(0.001);
                let rate = tokens.load(Ordering::Relaxed) as f64 / seconds;
                // A line that cannot be formatted is not drawn; there is nobody to tell.
                let _ = write!(line, "{rate:.0} tokens/s");
            },
        )
    }
}

impl Observer for Bar {
    fn begin(&self, rows: u64, slices: u64) {
        self.all.store(slices, Ordering::Relaxed);
        let bar = ProgressBar::with_draw_target(Some(rows), ProgressDrawTarget::stderr());
        bar.set_style(self.style());
        bar.set_message(self.verb);
        bar.enable_steady_tick(Duration::from_millis(200));
        let _ = self.bar.set(bar);
    }

    fn advance(&self, rows: u64, tokens: u64) {
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
        if let Some(bar) = self.bar.get() {
            bar.inc(rows);
        }
    }

    fn slices(&self, running: u64, waiting: u64, _: Usage) {
        let all = self.all.load(Ordering::Relaxed);
        if let Some(bar) = self.bar.get().filter(|_| all > 1) {
            let begun = all.saturating_sub(waiting);
            let written = begun.saturating_sub(running);
            bar.set_message(format!("{} ({written}/{all} slices)", self.verb));
        }
    }

    fn committed(&self, _: &Summary) {}
}
