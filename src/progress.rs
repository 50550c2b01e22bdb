//! Progress of long work on stderr: a bar on a terminal, else a line every 30 seconds.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use asap_pipelines::location;
use asap_pipelines::run::{Observer, Summary};
use asap_udfs::llm::Usage;
use console::Term;
use indicatif::ProgressFinish::AndClear;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tokio::task::JoinHandle;

use crate::output::{complain, count, rough, show_below};

const LINES: Duration = Duration::from_secs(30);
/// Work shorter than this shows no progress.
pub const SHORT: Duration = Duration::from_secs(2);

/// Progress while locations are opened, which may take long for JSON files. Dropping it ends the display.
pub struct Opening(Option<JoinHandle<()>>);

impl Opening {
    /// Shows progress after [`SHORT`], unless `is_quiet`.
    pub fn of(locations: &[String], is_quiet: bool) -> Self {
        let shown =
            |named: &String| location::parse(named).map_or_else(|_| named.clone(), |url| location::display(&url));
        let mut shown = locations.iter().map(shown).collect::<Vec<_>>().join(", ");
        if locations.iter().any(|named| named.contains("://")) {
            let limit = humantime::format_duration(location::retry_timeout());
            shown.push_str(&format!(" (a store that does not answer is retried for {limit})"));
        }
        Self((!is_quiet).then(|| tokio::spawn(Self::tell(shown))))
    }

    async fn tell(shown: String) {
        let begun = Instant::now();
        tokio::time::sleep(SHORT).await;
        if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
            let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_finish(AndClear);
            spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            spinner.set_message(format!("opening {shown}"));
            spinner.enable_steady_tick(Duration::from_millis(200));
            show_below(&spinner);
            return std::future::pending().await;
        }
        tokio::time::sleep(SHORT).await;
        loop {
            complain(&format!("opening {shown}: {} s", begun.elapsed().as_secs()));
            tokio::time::sleep(LINES).await;
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Progress of work on rows: rates, calls and the remaining time. It appears when work begins.
pub struct Bar {
    is_quiet: bool,
    reached: Arc<Reached>,
    bar: OnceLock<ProgressBar>,
    lines: OnceLock<JoinHandle<()>>,
    opening: Mutex<Option<Opening>>,
}

struct Reached {
    verb: &'static str,
    begun: OnceLock<Instant>,
    all_rows: AtomicU64,
    rows: AtomicU64,
    tokens: AtomicU64,
    all_slices: AtomicU64,
    written_slices: AtomicU64,
    usage: Mutex<Usage>,
    read_before: AtomicU64,
}

impl Reached {
    fn scored(&self) -> u64 {
        asap_lm::tokens_read().saturating_sub(self.read_before.load(Ordering::Relaxed))
    }

    /// Formats a line of at most `width` characters, without the least important parts if necessary.
    fn line(&self, elapsed: Duration, scored: u64, width: usize) -> String {
        let mut parts = self.parts(elapsed, scored);
        let length = |parts: &[(u8, String)]| parts.iter().map(|(_, part)| part.chars().count() + 2).sum::<usize>();
        while parts.len() > 1 && length(&parts) > width + 2 {
            let least = parts.iter().enumerate().max_by_key(|(_, (rank, _))| *rank).map_or(0, |(place, _)| place);
            parts.remove(least);
        }
        let line = parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(", ");
        line.chars().take(width).collect()
    }

    fn parts(&self, elapsed: Duration, scored: u64) -> Vec<(u8, String)> {
        let (rows, all) = (self.rows.load(Ordering::Relaxed), self.all_rows.load(Ordering::Relaxed));
        let seconds = elapsed.as_secs_f64().max(0.001);
        let per_second = |tokens: u64| count((tokens as f64 / seconds) as u64);
        let mut parts = vec![match all {
            // The total is unknown.
            0 => (0, format!("{} rows", count(rows))),
            _ => (0, format!("{} of {} rows", count(rows), count(all))),
        }];
        let all_slices = self.all_slices.load(Ordering::Relaxed);
        if all_slices > 1 {
            parts.push((5, format!("{} of {all_slices} slices", self.written_slices.load(Ordering::Relaxed))));
        }
        // The tokens of a row are known when it is done, those that a model reads immediately.
        if scored > 0 {
            parts.push((2, format!("{} tokens scored", count(scored))));
            parts.push((3, format!("{} tokens/s", per_second(scored))));
        } else if all_slices > 0 {
            parts.push((3, format!("{} tokens/s", per_second(self.tokens.load(Ordering::Relaxed)))));
        }
        let usage = *self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        if usage.calls > 0 {
            parts.push((4, format!("{} calls, {} failed", count(usage.calls), count(usage.failed))));
        }
        if usage.cost > 0.0 {
            parts.push((4, format!("cost {:.4}", usage.cost)));
        }
        // The remaining time is unknown before the first row is done, and after the last.
        if rows > 0 && rows < all {
            let left = seconds / rows as f64 * all.saturating_sub(rows) as f64;
            parts.push((1, format!("{} left", rough(left.ceil() as u64))));
        }
        parts
    }
}

impl Bar {
    /// The line after `elapsed`, in which a model has read `scored` tokens, in at most `width` characters.
    pub fn line(&self, elapsed: Duration, scored: u64, width: usize) -> String {
        self.reached.line(elapsed, scored, width)
    }

    /// A bar that appears when work begins, unless `is_quiet`. `verb` names the work.
    pub fn new(verb: &'static str, is_quiet: bool) -> Self {
        let reached = Reached {
            verb,
            begun: OnceLock::new(),
            all_rows: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            all_slices: AtomicU64::new(0),
            written_slices: AtomicU64::new(0),
            usage: Mutex::default(),
            read_before: AtomicU64::new(0),
        };
        let opening = Mutex::default();
        Self { is_quiet, reached: Arc::new(reached), bar: OnceLock::new(), lines: OnceLock::new(), opening }
    }

    /// Shows that these locations are being opened, until work begins.
    pub fn opening(self, locations: &[String]) -> Self {
        *self.opening.lock().unwrap_or_else(PoisonError::into_inner) = Some(Opening::of(locations, self.is_quiet));
        self
    }

    pub fn finish(&self) {
        self.opened();
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
        self.lines.get().iter().for_each(|lines| lines.abort());
    }

    fn opened(&self) {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn style(&self) -> ProgressStyle {
        let reached = Arc::clone(&self.reached);
        // The bar fills the width that the line leaves.
        let style = ProgressStyle::with_template("{msg} {wide_bar} {reached}");
        style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key(
            "reached",
            move |state: &ProgressState, line: &mut dyn std::fmt::Write| {
                // A line that cannot be formatted is not drawn.
                let width = usize::from(Term::stderr().size().1).saturating_sub(reached.verb.len() + 3);
                let _ = write!(line, "{}", reached.line(state.elapsed(), reached.scored(), width));
            },
        )
    }

    fn draw(&self, rows: u64) {
        let bar = ProgressBar::with_draw_target((rows > 0).then_some(rows), ProgressDrawTarget::stderr());
        bar.set_style(self.style());
        bar.set_message(self.reached.verb);
        bar.enable_steady_tick(Duration::from_millis(200));
        show_below(&bar);
        // Work begins once.
        drop(self.bar.set(bar));
    }

    fn write_lines(&self) {
        let reached = Arc::clone(&self.reached);
        let begun = *self.reached.begun.get_or_init(Instant::now);
        let lines = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LINES).await;
                let line = reached.line(begun.elapsed(), reached.scored(), usize::MAX - 2);
                complain(&format!("{}: {line}", reached.verb));
            }
        });
        if let Err(lines) = self.lines.set(lines) {
            lines.abort();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Observer for Bar {
    fn begin(&self, rows: u64, slices: u64) {
        self.opened();
        self.reached.read_before.store(asap_lm::tokens_read(), Ordering::Relaxed);
        self.reached.all_rows.store(rows, Ordering::Relaxed);
        self.reached.all_slices.store(slices, Ordering::Relaxed);
        match std::io::stderr().is_terminal() {
            _ if self.is_quiet => {}
            true => self.draw(rows),
            false => self.write_lines(),
        }
    }

    fn advance(&self, rows: u64, tokens: u64) {
        self.reached.rows.fetch_add(rows, Ordering::Relaxed);
        self.reached.tokens.fetch_add(tokens, Ordering::Relaxed);
        if let Some(bar) = self.bar.get() {
            bar.inc(rows);
        }
    }

    fn slices(&self, running: u64, waiting: u64, usage: Usage) {
        let all = self.reached.all_slices.load(Ordering::Relaxed);
        self.reached.written_slices.store(all.saturating_sub(running + waiting), Ordering::Relaxed);
        *self.reached.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }

    fn committed(&self, _: &Summary) {}
}
