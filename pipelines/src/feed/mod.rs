//! Rows of a corpus as training examples, in an order that four numbers restore.
//!
//! ```text
//!   segments   rows present at the start, by source │ rows of each later commit, by source
//!   windows    8,192 rows each, across segments
//!   epoch      an order of windows, and of the rows in each, drawn from seed, epoch and window
//!   position   version : epoch : window : row
//! ```
//!
//! A position needs no buffer of rows: to resume after it, a feed reads one window. A row that is not an example (too
//! long, held out, a reject) keeps its place, so token settings do not move other rows. The examples of a row, such as a
//! conversation, are fed together: no position is between them.

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

pub use encoder::{Encoder, FedRow, Loss};
pub use position::{Deciding, Mark, Position};
pub use rows::{Rows, WINDOW_ROWS};
pub use segment::check_steps;

use crate::corpus::ColumnMapping;
use crate::reasons::Reasons;
use rows::{order_of_rows, order_of_windows};
use segment::RowWithSource;

const LOOK: Duration = Duration::from_secs(2);

const NOT_OURS: &str = "it was written for other data; start without it";

#[derive(Debug, Clone)]
pub struct FeedConfig {
    /// A folder, a file, a glob pattern or a Delta table.
    pub location: String,
    pub columns: Option<ColumnMapping>,
    pub epochs: u64,
    /// Random seed of the order of windows and rows.
    pub seed: u64,
    /// Whether the first epoch takes rows as a run commits them, until the run reports that it is finished.
    pub follow: bool,
    pub resume: Option<Position>,
    /// Rank and world size: which trainer the steps are for, and the number of trainers that share them.
    pub part: (u64, u64),
}

/// What a trainer gets in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepSize {
    /// The examples of this many rows.
    Rows(usize),
    /// Rows whose examples have at most this many tokens together. A longer row gets its own step.
    Tokens(usize),
}

/// A row to learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fed {
    /// At least one.
    pub examples: Vec<Example>,
    /// The position after it.
    pub position: Position,
    /// Its file and its row number in it.
    pub source: (Arc<str>, u64),
}

impl Fed {
    pub fn tokens(&self) -> usize {
        self.examples.iter().map(|example| example.ids.len()).sum()
    }
}

/// Counts over all rows, and the held-out examples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    pub counts: Counts,
    /// Tokens of the examples to learn, including prompts.
    pub tokens: u64,
    /// Those of `tokens` that are learned.
    pub learned: u64,
    pub longest: u64,
    /// The tokens of the row with the most.
    pub longest_row: u64,
    pub held_out: Vec<Example>,
}

/// Counts of rows. A feed counts the rows read so far of the first epoch fed, for all trainers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows to learn: a row with several examples counts as one.
    pub examples: u64,
    /// Those of `examples` that were cut.
    pub cut: u64,
    pub too_long: u64,
    pub held_out: u64,
    /// Rows that the corpus or the chat template rejects.
    pub rejected: u64,
    /// Why: the status in the corpus, or what the chat template does.
    pub reasons: Reasons,
    /// Those of `examples` whose system prompt the chat template does not print.
    pub without_system: u64,
}

/// The examples of a window, and the counts of its rows.
type Window = (Vec<Fed>, Counts);

/// The examples of a location, epoch by epoch. Reads and tokenizes windows ahead.
pub struct Feed {
    windows: mpsc::Receiver<Result<Window>>,
    ready: VecDeque<Fed>,
    part: (u64, u64),
    pub counts: Counts,
    pub notes: Vec<String>,
    /// The position before the first example.
    pub start: Position,
    _reader: SpawnedTask<()>,
}

impl Feed {
    /// Starts to read `rows`, which were opened with this config.
    pub fn begin(mut rows: Rows, config: FeedConfig, encoder: Arc<Encoder>) -> Result<Self> {
        let (part, parts) = config.part;
        if part >= parts {
            return config_err!("rank {part} of {parts}: ranks are counted from 0");
        }
        if let Some(resume) = config.resume.filter(|resume| resume.epoch >= config.epochs) {
            return config_err!(
                "position {resume} is in epoch {}, but there are {} epochs, counted from 0",
                resume.epoch,
                config.epochs
            );
        }
        let start = config.resume.unwrap_or(Position { version: rows.version, epoch: 0, window: 0, row: 0 });
        let notes = std::mem::take(&mut rows.notes);
        let (send, windows) = mpsc::channel(1);
        let reader = SpawnedTask::spawn(async move {
            if let Err(error) = read_ahead(rows, &config, start, &encoder, &send).await {
                // If the receiver is gone, no one needs the error.
                drop(send.send(Err(error)).await);
            }
        });
        let (ready, counts) = (VecDeque::new(), Counts::default());
        Ok(Self { windows, ready, part: (part, parts), counts, notes, start, _reader: reader })
    }

    /// Returns the next rows of one epoch: `most`, or fewer at its end. None after the last epoch.
    pub async fn next_rows(&mut self, most: usize) -> Result<Option<Vec<Fed>>> {
        let mut step: Vec<Fed> = Vec::new();
        while step.len() < most {
            let epoch = step.last().map(|fed| fed.position.epoch);
            if self.peek(epoch).await?.is_none() {
                break;
            }
            step.extend(self.ready.pop_front());
        }
        Ok((!step.is_empty()).then_some(step))
    }

    /// Returns what this trainer gets of the next step.
    pub async fn next_share(&mut self, size: StepSize) -> Result<Option<Vec<Fed>>> {
        let rank = self.part.0 as usize;
        Ok(self.next_step(size).await?.map(|mut shares| shares.swap_remove(rank)))
    }

    /// Returns the next step of one epoch: the rows of each trainer. None after the last epoch.
    ///
    /// All trainers have equally many steps: if an epoch's last step has too few rows, the others get a copy of an
    /// example without a token to learn. The last position of each trainer is that after the step, so it is the same for all.
    pub async fn next_step(&mut self, size: StepSize) -> Result<Option<Vec<Vec<Fed>>>> {
        let trainers = self.part.1 as usize;
        let mut shares = vec![Vec::new(); trainers];
        match size {
            StepSize::Rows(each) => {
                let step = self.next_rows(each.saturating_mul(trainers)).await?;
                for (number, fed) in step.into_iter().flatten().enumerate() {
                    shares[number % trainers].push(fed);
                }
            }
            StepSize::Tokens(most) => {
                let mut epoch = None;
                for share in &mut shares {
                    *share = self.next_tokens(most, epoch).await?;
                    epoch = epoch.or(share.first().map(|fed| fed.position.epoch));
                }
            }
        }
        let end = shares.iter().flatten().map(|fed| fed.position).max();
        let (Some(end), Some(first)) = (end, shares[0].first()) else { return Ok(None) };
        let mut copy = first.clone();
        copy.examples.truncate(1);
        copy.examples.iter_mut().for_each(|example| example.learned.clear());
        for share in &mut shares {
            if share.is_empty() {
                share.push(copy.clone());
            }
            if let Some(last) = share.last_mut() {
                last.position = end;
            }
        }
        Ok(Some(shares))
    }

    /// Returns the next rows of an epoch, or of any if it is None: as many as have `most` tokens, but at least one.
    async fn next_tokens(&mut self, most: usize, mut epoch: Option<u64>) -> Result<Vec<Fed>> {
        let (mut share, mut left) = (Vec::new(), most);
        while let Some(next) = self.peek(epoch).await? {
            let (tokens, of) = (next.tokens(), next.position.epoch);
            if tokens > left && !share.is_empty() {
                break;
            }
            left = left.saturating_sub(tokens);
            epoch = Some(of);
            share.extend(self.ready.pop_front());
        }
        Ok(share)
    }

    /// The next row, if it is in this epoch; with None, of any epoch.
    async fn peek(&mut self, epoch: Option<u64>) -> Result<Option<&Fed>> {
        while self.ready.is_empty() {
            let Some(window) = self.windows.recv().await else { return Ok(None) };
            let (fed, counts) = window?;
            self.counts.add(counts);
            self.ready.extend(fed);
        }
        Ok(self.ready.front().filter(|fed| epoch.is_none_or(|epoch| fed.position.epoch == epoch)))
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
                // A saved position always points into an existing window.
                if (epoch, place) == (start.epoch, start.window) && place > 0 {
                    return config_err!(
                        "position {start} is in window {place}, but there are {windows} windows, counted from 0: {NOT_OURS}"
                    );
                }
                break;
            };
            let skipped = if (epoch, place) == (start.epoch, start.window) { start.row } else { 0 };
            let at = Position { version: rows.version, epoch, window: place, row: skipped };
            let (fed, mut counts) = read_window(&rows, config, *window, at, encoder).await?;
            if epoch > start.epoch {
                counts = Counts::default();
            }
            if send.send(Ok((fed, counts))).await.is_err() {
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
        return config_err!("position {at} is after row {}, but its window has {rows} rows: {NOT_OURS}", at.row);
    }
    let order = order_of_rows(found.len(), config.seed, at.epoch, window);
    let (mut fed, mut counts) = (Vec::new(), Counts::default());
    for (place, index) in order.into_iter().enumerate() {
        let Some(found) = found[index].take() else { continue };
        counts.count(&found);
        let (FedRow::Learned(examples) | FedRow::Cut(examples)) = found.row else { continue };
        if place as u64 >= at.row {
            let position = Position { row: place as u64 + 1, ..at };
            fed.push(Fed { examples, position, source: found.source });
        }
    }
    Ok((fed, counts))
}

impl Counts {
    fn count(&mut self, RowWithSource { row, lacks_system, .. }: &RowWithSource) {
        match row {
            FedRow::Learned(_) => self.examples += 1,
            FedRow::Cut(_) => (self.examples, self.cut) = (self.examples + 1, self.cut + 1),
            FedRow::HeldOut(_) => self.held_out += 1,
            FedRow::TooLong => self.too_long += 1,
            FedRow::Rejected(why) => {
                self.rejected += 1;
                self.reasons.count(why, 1);
            }
        }
        let is_learned = matches!(row, FedRow::Learned(_) | FedRow::Cut(_));
        self.without_system += u64::from(is_learned && *lacks_system);
    }

    fn add(&mut self, Self { examples, cut, too_long, held_out, rejected, reasons, without_system }: Self) {
        self.examples += examples;
        self.cut += cut;
        self.too_long += too_long;
        self.held_out += held_out;
        self.rejected += rejected;
        self.reasons.add(&reasons);
        self.without_system += without_system;
    }
}

impl Survey {
    fn count(&mut self, found: RowWithSource) {
        self.counts.count(&found);
        match found.row {
            FedRow::Learned(examples) | FedRow::Cut(examples) => {
                let tokens = examples.iter().map(|example| example.ids.len() as u64).sum();
                self.tokens += tokens;
                self.longest_row = self.longest_row.max(tokens);
                for example in examples {
                    self.learned += example.learned_tokens() as u64;
                    self.longest = self.longest.max(example.ids.len() as u64);
                }
            }
            FedRow::HeldOut(examples) => self.held_out.extend(examples),
            FedRow::TooLong | FedRow::Rejected(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
