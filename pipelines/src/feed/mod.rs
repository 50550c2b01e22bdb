//! Rows of a corpus as the examples that a model is trained on, in an order that four numbers find again.
//!
//! ```text
//!   segments   rows that were there at the beginning, by source │ rows of each later commit, by source
//!   windows    8,192 rows each, across segments
//!   epoch      an order of windows, and of the rows in each, drawn from seed, epoch and window
//!   position   version : epoch : window : row
//! ```
//!
//! No buffer of rows belongs to a position: to resume after it, one window is read. A row that is no example (too long, held
//! back, a reject) has a place all the same, so that settings of tokens move no other row.

mod encoder;
mod position;
mod rows;
mod segment;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use asap_lm::example::Example;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, config_err};
use tokio::sync::mpsc;

pub use encoder::{Encoder, Row};
pub use position::{Deciding, Mark, Position};
pub use rows::{Rows, WINDOW_ROWS};

use crate::corpus::ColumnMapping;
use rows::{order_of_rows, order_of_windows};

const LOOK: Duration = Duration::from_secs(2);

const NOT_OURS: &str = "it was written for other data; begin without it";

/// What to feed.
#[derive(Debug, Clone)]
pub struct FeedConfig {
    /// A folder, a file, a pattern or a Delta table.
    pub location: String,
    /// Which columns are question, chain and answer.
    pub columns: Option<ColumnMapping>,
    /// How often each row is fed.
    pub epochs: u64,
    /// Of the orders.
    pub seed: u64,
    /// Whether the first epoch takes rows as a run commits them, until it has said that it is finished.
    pub follow: bool,
    /// Where to go on.
    pub resume: Option<Position>,
    /// Which part of each window's examples is fed, of how many.
    pub part: (u64, u64),
}

/// An example with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fed {
    /// The tokens.
    pub example: Example,
    /// The place behind it.
    pub position: Position,
    /// Its file and its number there.
    pub source: (Arc<str>, u64),
}

/// What all rows are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Examples to learn.
    pub learned: u64,
    /// Of these, those that were cut.
    pub cut: u64,
    /// Rows of too many tokens.
    pub too_long: u64,
    /// Rows without a question or chain, or that the chat template refuses.
    pub rejected: u64,
    /// Tokens of the examples to learn, prompts included.
    pub tokens: u64,
    /// Tokens of the longest example to learn.
    pub longest: u64,
    /// Examples that are not learned.
    pub held_out: Vec<Example>,
}

/// What became of the rows of the first epoch that was fed, as far as it was read: of all parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Examples.
    pub examples: u64,
    /// Of these, those that were cut.
    pub cut: u64,
    /// Rows of too many tokens.
    pub too_long: u64,
    /// Rows without a question or chain, or that the chat template refuses.
    pub rejected: u64,
}

struct Window {
    fed: Vec<Fed>,
    counts: Counts,
}

/// The examples of a location, epoch by epoch. Windows are read and made tokens of ahead.
pub struct Feed {
    windows: mpsc::Receiver<Result<Window>>,
    ready: VecDeque<Fed>,
    /// What was read of the first epoch.
    pub counts: Counts,
    /// What to tell the user.
    pub notes: Vec<String>,
    /// The place before the first example.
    pub start: Position,
    _reader: SpawnedTask<()>,
}

impl Feed {
    /// Begins to read rows that were found with this config.
    ///
    /// # Errors
    /// If no such part can be fed.
    pub fn begin(mut rows: Rows, config: FeedConfig, encoder: Arc<Encoder>) -> Result<Self> {
        let (part, parts) = config.part;
        if part >= parts {
            return config_err!("rank {part} of {parts}: ranks are counted from 0");
        }
        if let Some(resume) = config.resume.filter(|resume| resume.epoch >= config.epochs) {
            return config_err!(
                "position {resume} is of epoch {}, and there are {} from 0 on",
                resume.epoch,
                config.epochs
            );
        }
        let start = config.resume.unwrap_or(Position { version: rows.version, epoch: 0, window: 0, row: 0 });
        let notes = std::mem::take(&mut rows.notes);
        let (send, windows) = mpsc::channel(1);
        let reader = SpawnedTask::spawn(async move {
            if let Err(error) = read_ahead(rows, &config, start, &encoder, &send).await {
                // Who does not listen any more needs no reason.
                drop(send.send(Err(error)).await);
            }
        });
        Ok(Self { windows, ready: VecDeque::new(), counts: Counts::default(), notes, start, _reader: reader })
    }

    /// The next examples of one epoch, `most` of them or as many as it has left; None after the last epoch.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub async fn step(&mut self, most: usize) -> Result<Option<Vec<Fed>>> {
        let mut step: Vec<Fed> = Vec::with_capacity(most);
        while step.len() < most {
            match self.ready.pop_front() {
                Some(fed) if step.last().is_some_and(|last| last.position.epoch != fed.position.epoch) => {
                    self.ready.push_front(fed);
                    break;
                }
                Some(fed) => step.push(fed),
                None => match self.windows.recv().await {
                    Some(window) => {
                        let Window { fed, counts } = window?;
                        self.counts.add(counts);
                        self.ready.extend(fed);
                    }
                    None => break,
                },
            }
        }
        Ok((!step.is_empty()).then_some(step))
    }
}

async fn read_ahead(
    mut rows: Rows,
    config: &FeedConfig,
    start: Position,
    encoder: &Arc<Encoder>,
    send: &mpsc::Sender<Result<Window>>,
) -> Result<()> {
    for epoch in start.epoch..config.epochs {
        let as_they_fill = config.follow && epoch == 0;
        let mut place = if epoch == start.epoch { start.window } else { 0 };
        loop {
            while place >= rows.windows() && !rows.is_complete {
                tokio::time::sleep(LOOK).await;
                rows.look().await?;
            }
            let windows = rows.windows();
            let order = order_of_windows(windows, config.seed, epoch, as_they_fill);
            let Some(window) = order.get(place as usize) else {
                // A place that was written lies in a window that there is.
                if (epoch, place) == (start.epoch, start.window) && place > 0 {
                    return config_err!(
                        "position {start} is of window {place}, and there are {windows} from 0 on: {NOT_OURS}"
                    );
                }
                break;
            };
            let skipped = if (epoch, place) == (start.epoch, start.window) { start.row } else { 0 };
            let at = Position { version: rows.version, epoch, window: place, row: skipped };
            let mut window = read_window(&rows, config, *window, at, encoder).await?;
            if epoch > start.epoch {
                window.counts = Counts::default();
            }
            if send.send(Ok(window)).await.is_err() {
                return Ok(());
            }
            place += 1;
        }
    }
    Ok(())
}

async fn read_window(
    rows: &Rows,
    config: &FeedConfig,
    window: u64,
    at: Position,
    encoder: &Arc<Encoder>,
) -> Result<Window> {
    let mut found: Vec<_> = rows.read(window, encoder).await?.into_iter().map(Some).collect();
    if at.row > found.len() as u64 {
        let rows = found.len();
        return config_err!("position {at} lies behind row {}, and its window has {rows} rows: {NOT_OURS}", at.row);
    }
    let order = order_of_rows(found.len(), config.seed, at.epoch, window);
    let (part, parts) = config.part;
    let (mut fed, mut counts) = (Vec::new(), Counts::default());
    for (place, index) in order.into_iter().enumerate() {
        let Some(found) = found[index].take() else { continue };
        counts.cut += u64::from(matches!(found.row, Row::Cut(_)));
        counts.too_long += u64::from(found.row == Row::TooLong);
        counts.rejected += u64::from(found.row == Row::Rejected);
        let (Row::Learned(example) | Row::Cut(example)) = found.row else { continue };
        let is_ours = counts.examples % parts == part;
        counts.examples += 1;
        if is_ours && place as u64 >= at.row {
            let position = Position { row: place as u64 + 1, ..at };
            fed.push(Fed { example, position, source: found.source });
        }
    }
    Ok(Window { fed, counts })
}

impl Counts {
    fn add(&mut self, Self { examples, cut, too_long, rejected }: Self) {
        self.examples += examples;
        self.cut += cut;
        self.too_long += too_long;
        self.rejected += rejected;
    }
}

impl Survey {
    fn count(&mut self, row: Row) {
        match row {
            Row::Learned(example) => self.learn(&example),
            Row::Cut(example) => {
                self.cut += 1;
                self.learn(&example);
            }
            Row::HeldOut(example) => self.held_out.push(example),
            Row::TooLong => self.too_long += 1,
            Row::Rejected => self.rejected += 1,
        }
    }

    fn learn(&mut self, example: &Example) {
        self.learned += 1;
        self.tokens += example.ids.len() as u64;
        self.longest = self.longest.max(example.ids.len() as u64);
    }
}

#[cfg(test)]
mod tests;
