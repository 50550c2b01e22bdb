//! Progress of long work on stderr: a bar on a terminal, else a line every 30 seconds.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use asap_llm::Usage;
use asap_pipelines::location;
use asap_pipelines::run::Observer;
use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::output::{IS_QUIET, complain, count, rough, show_below};
use crate::terminal::visible;

pub const LINES: Duration = Duration::from_secs(30);
/// Work shorter than this shows no progress.
pub const SHORT: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(200);

pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Draws a bar below the lines that are written to stderr.
pub fn draw(all: Option<u64>, style: ProgressStyle) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(all, ProgressDrawTarget::stderr()).with_style(style);
    bar.enable_steady_tick(TICK);
    show_below(Some(bar.clone()));
    bar
}

/// A bar, or a task that draws or writes. Dropping it ends the display.
struct Shown {
    bar: Option<ProgressBar>,
    task: Option<JoinHandle<()>>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.task.iter().for_each(JoinHandle::abort);
        show_below(None);
    }
}

/// Awaits `work`, which opens these locations. Shows progress if it takes long, as it may for JSON files.
pub async fn while_opening<T>(locations: &[String], work: impl Future<Output = T>) -> T {
    let _shown = (!IS_QUIET.load(Ordering::Relaxed)).then(|| opening(locations));
    work.await
}

fn opening(locations: &[String]) -> Shown {
    let shown = |named: &String| location::parse(named).map_or_else(|_| named.clone(), |url| location::display(&url));
    let mut shown = locations.iter().map(shown).collect::<Vec<_>>().join(", ");
    if locations.iter().any(|named| named.contains("://")) {
        let limit = humantime::format_duration(location::retry_timeout());
        shown.push_str(&format!(" (a store that does not answer is retried for {limit})"));
    }
    let task = tokio::spawn(async move {
        let begun = Instant::now();
        tokio::time::sleep(SHORT).await;
        if std::io::stderr().is_terminal() {
            draw(None, style("{spinner} {msg}, {elapsed}")).set_message(format!("opening {}", visible(&shown)));
            return;
        }
        tokio::time::sleep(SHORT).await;
        loop {
            complain(&format!("opening {shown}: {} s", begun.elapsed().as_secs()));
            tokio::time::sleep(LINES).await;
        }
    });
    Shown { bar: None, task: Some(task) }
}

/// Progress of work on rows: rates, calls and the remaining time. It appears when work begins.
pub struct Bar {
    verb: &'static str,
    is_quiet: bool,
    reached: Arc<Mutex<Reached>>,
    shown: Mutex<Option<Shown>>,
}

#[derive(Default)]
struct Reached {
    all_rows: u64,
    rows: u64,
    tokens: u64,
    all_slices: u64,
    written_slices: u64,
    usage: Usage,
}

impl Reached {
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
        let Self { all_rows, rows, tokens, all_slices, written_slices, usage } = *self;
        let seconds = elapsed.as_secs_f64().max(0.001);
        let per_second = |tokens: u64| count((tokens as f64 / seconds) as u64);
        let mut parts = vec![match all_rows {
            // The total is unknown.
            0 => (0, format!("{} rows", count(rows))),
            _ => (0, format!("{} of {} rows", count(rows), count(all_rows))),
        }];
        if all_slices > 1 {
            parts.push((5, format!("{written_slices} of {all_slices} slices")));
        }
        // The tokens of a row are known when it is done, those that a model reads immediately.
        if scored > 0 {
            parts.push((2, format!("{} tokens scored", count(scored))));
            parts.push((3, format!("{} tokens/s", per_second(scored))));
        } else if all_slices > 0 {
            parts.push((3, format!("{} tokens/s", per_second(tokens))));
        }
        if usage.calls > 0 {
            parts.push((4, format!("{} calls, {} failed", count(usage.calls), count(usage.failed))));
        }
        if usage.cost > 0.0 {
            parts.push((4, format!("cost {:.4}", usage.cost)));
        }
        // The remaining time is unknown before the first row is done, and after the last.
        if rows > 0 && rows < all_rows {
            let left = seconds / rows as f64 * (all_rows - rows) as f64;
            parts.push((1, format!("{} left", rough(left.ceil() as u64))));
        }
        parts
    }
}

impl Bar {
    /// The line after `elapsed`, in which a model has read `scored` tokens, in at most `width` characters.
    pub fn line(&self, elapsed: Duration, scored: u64, width: usize) -> String {
        self.reached.lock().line(elapsed, scored, width)
    }

    /// The rows that are done, all rows (0 if the number is unknown), and the calls to language models.
    pub fn reached(&self) -> (u64, u64, Usage) {
        let reached = self.reached.lock();
        (reached.rows, reached.all_rows, reached.usage)
    }

    /// A bar that appears when work begins, unless `is_quiet` or with `--quiet`. `verb` names the work.
    pub fn new(verb: &'static str, is_quiet: bool) -> Self {
        let is_quiet = is_quiet || IS_QUIET.load(Ordering::Relaxed);
        Self { verb, is_quiet, reached: Arc::default(), shown: Mutex::default() }
    }

    /// Shows that these locations are being opened, until work begins.
    pub fn opening(self, locations: &[String]) -> Self {
        *self.shown.lock() = (!self.is_quiet).then(|| opening(locations));
        self
    }

    pub fn finish(&self) {
        drop(self.shown.lock().take());
    }
}

impl Observer for Bar {
    fn begin(&self, rows: u64, slices: u64) {
        self.finish();
        {
            let mut reached = self.reached.lock();
            (reached.all_rows, reached.all_slices) = (rows, slices);
        }
        let (reached, begun, read_before) = (Arc::clone(&self.reached), Instant::now(), asap_lm::tokens_read());
        let line = move |width| {
            let scored = asap_lm::tokens_read().saturating_sub(read_before);
            reached.lock().line(begun.elapsed(), scored, width)
        };
        let verb = self.verb;
        *self.shown.lock() = match std::io::stderr().is_terminal() {
            _ if self.is_quiet => None,
            true => {
                let reached = move |_: &ProgressState, text: &mut dyn Write| {
                    let width = usize::from(Term::stderr().size().1).saturating_sub(verb.len() + 3);
                    // A line that cannot be formatted is not drawn.
                    let _ = text.write_str(&line(width));
                };
                // The bar fills the width that the line leaves.
                let style = style("{msg} {wide_bar} {reached}").with_key("reached", reached);
                let bar = draw((rows > 0).then_some(rows), style);
                bar.set_message(verb);
                Some(Shown { bar: Some(bar), task: None })
            }
            false => {
                let task = tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(LINES).await;
                        complain(&format!("{verb}: {}", line(usize::MAX - 2)));
                    }
                });
                Some(Shown { bar: None, task: Some(task) })
            }
        };
    }

    fn advance(&self, rows: u64, tokens: u64) {
        let mut reached = self.reached.lock();
        (reached.rows, reached.tokens) = (reached.rows + rows, reached.tokens + tokens);
        drop(reached);
        if let Some(bar) = self.shown.lock().as_ref().and_then(|shown| shown.bar.as_ref()) {
            bar.inc(rows);
        }
    }

    fn slices(&self, running: u64, waiting: u64, usage: Usage) {
        let mut reached = self.reached.lock();
        reached.written_slices = reached.all_slices.saturating_sub(running + waiting);
        reached.usage = usage;
    }
}
