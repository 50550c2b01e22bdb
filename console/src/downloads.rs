//! Progress of downloads of models.

use std::io::IsTerminal;
use std::time::Instant;

use asap_hub::Progress;
use indicatif::{HumanBytes, ProgressBar};
use parking_lot::Mutex;

use crate::output::{complain, show_below};
use crate::progress::{LINES, SHORT, draw, style};

/// Shows downloads from now on, if they take long: a bar on a terminal, else a line every 30 seconds.
pub fn show() {
    let shown = Mutex::new(Shown::default());
    asap_hub::on_progress(move |progress| shown.lock().update(progress));
}

#[derive(Default)]
struct Shown {
    begun: Option<Instant>,
    said: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Shown {
    fn update(&mut self, Progress { model, done, all }: &Progress) {
        if done >= all {
            if std::mem::take(self).bar.is_some() {
                show_below(None);
            }
            return;
        }
        if self.begun.get_or_insert_with(Instant::now).elapsed() < SHORT {
            return;
        }
        if std::io::stderr().is_terminal() {
            let drawn = || {
                let bar =
                    draw(Some(*all), style("{msg} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"));
                bar.set_message(format!("downloading {model}"));
                bar
            };
            self.bar.get_or_insert_with(drawn).set_position(*done);
        } else if self.said.is_none_or(|said| said.elapsed() >= LINES) {
            self.said = Some(Instant::now());
            complain(&format!("downloading {model}: {} of {}", HumanBytes(*done), HumanBytes(*all)));
        }
    }
}
