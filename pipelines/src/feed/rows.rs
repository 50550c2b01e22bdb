//! The rows of a feed: consecutive segments, cut into windows.

use std::sync::Arc;

use asap_kernels::steps::Separator;
use asap_lm::train::random;
use datafusion::common::{Result, exec_err};
use datafusion::prelude::SessionContext;
use sha2::{Digest, Sha256};

use super::encoder::Encoder;
use super::segment::{RowWithSource, Segment};
use super::{FeedConfig, Survey};
use crate::corpus::files::source::Source;
use crate::corpus::{self, ColumnMapping, Corpus, CorpusFile, Files, Fit};
use crate::delta::{Followed, Since};
use crate::run::output::identity::Identity;
use crate::run::output::sums;
use crate::run::output::table_properties::{PIPELINE, decode};
use crate::run::{is_finished, says_finished};

/// Rows per window. Rows are shuffled within a window, and a feed that resumes reads one window.
pub const WINDOW_ROWS: usize = 8192;
const OF_ROWS: u64 = 0x726f_7773;

pub struct Rows {
    context: SessionContext,
    source: Source,
    mapping: Option<ColumnMapping>,
    segments: Vec<Segment>,
    separator: Separator,
    /// The id of the table; None for plain files.
    pub table: Option<String>,
    pub(super) version: u64,
    known: u64,
    pub(super) is_complete: bool,
    pub notes: Vec<String>,
}

impl Rows {
    /// Finds the rows of a feed. For a table, these are the rows of the resume position's version or of the newest
    /// version, and of later commits if the feed follows them.
    ///
    /// # Errors
    /// If nothing can be read there, or if the data differs from the position's version.
    pub async fn open(context: &SessionContext, config: &FeedConfig) -> Result<Self> {
        let FeedConfig { location, columns: mapping, follow, resume, .. } = config;
        let version = resume.map(|position| position.version);
        let mut rows = Self {
            context: context.clone(),
            source: location.parse()?,
            mapping: mapping.clone(),
            segments: Vec::new(),
            separator: Separator::default(),
            table: None,
            version: 0,
            known: 0,
            is_complete: !*follow,
            notes: Vec::new(),
        };
        let Files { mut files, mut tables, notes } = rows.list(version.map(Since::Snapshot)).await?;
        rows.notes = notes;
        let Some(table) = tables.pop() else {
            files.sort_by(|a, b| a.path.cmp(&b.path));
            rows.version = fingerprint(&files);
            if let Some(version) = version.filter(|version| *version != rows.version) {
                let found = rows.version;
                return exec_err!(
                    "the files of {location} have changed since the feed started (fingerprint {found}, expected \
                     {version}): the order of its rows cannot be restored; start again"
                );
            }
            if *follow {
                return exec_err!(
                    "{location} is not a Delta table: only the output of a run can be followed while it grows"
                );
            }
            rows.add(files, location).await?;
            return Ok(rows);
        };
        let log = &table.log;
        rows.table = Some(log.state.metadata.id.clone());
        rows.version = version.unwrap_or(log.state.version);
        rows.known = rows.version;
        let begun = if version.is_some() { &log.snapshot } else { &log.state };
        rows.is_complete |= says_finished(begun);
        let pipeline = decode::<Identity>(begun, PIPELINE);
        let separator = pipeline.as_ref().and_then(|pipeline| pipeline.parts().get("asap.chain.steps"));
        rows.separator = separator.and_then(|name| Separator::named(name)).unwrap_or_default();
        rows.notes.extend(sums::compare(&rows.source.url, begun).await?);
        let is_removed = |path: &String| (!log.state.files.contains_key(path)).then_some(log.state.version);
        files = begun.files.values().map(|file| table.file(file, is_removed(&file.path))).collect::<Result<_>>()?;
        rows.add(files, location).await?;
        rows.take_commits(&table).await?;
        Ok(rows)
    }

    /// Takes no rows that a run commits from now on.
    pub fn stop_following(&mut self) {
        self.is_complete = true;
    }

    async fn list(&self, since: Option<Since>) -> Result<Files> {
        corpus::list(&self.context.state(), std::slice::from_ref(&self.source), |_| since).await
    }

    pub(super) async fn look(&mut self) -> Result<()> {
        let mut found = self.list(Some(Since::Snapshot(self.version))).await?;
        match found.tables.pop() {
            Some(table) => self.take_commits(&table).await,
            None => exec_err!("the table {} no longer exists", self.source.typed),
        }
    }

    async fn take_commits(&mut self, table: &corpus::Table) -> Result<()> {
        let Followed { state, later, .. } = &table.log;
        let is_removed = |path: &String| (!state.files.contains_key(path)).then_some(state.version);
        let known = self.known;
        for version in later.iter().filter(|version| version.version > known) {
            if self.is_complete {
                break;
            }
            let added = version.added.iter().filter(|file| file.data_change);
            let files = added.map(|file| table.file(file, is_removed(&file.path))).collect::<Result<Vec<_>>>()?;
            if !files.is_empty() {
                self.add(files, &table.shown()).await?;
            }
            self.known = version.version;
            self.is_complete = version.transactions.iter().any(is_finished);
        }
        Ok(())
    }

    async fn add(&mut self, files: Vec<CorpusFile>, location: &str) -> Result<()> {
        let corpus = Corpus::recognize(&self.context.state(), files, self.mapping.as_ref(), Fit::Query).await?;
        for note in &corpus.notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        if corpus.groups() == 0 && corpus.failures.is_empty() && self.is_complete {
            return exec_err!("{location} has no rows");
        }
        self.segments.push(Segment::new(&self.context, corpus, self.separator).await?);
        Ok(())
    }

    fn rows(&self) -> usize {
        self.segments.iter().map(Segment::rows).sum()
    }

    pub(super) fn windows(&self) -> u64 {
        let rows = self.rows();
        let windows = if self.is_complete { rows.div_ceil(WINDOW_ROWS) } else { rows / WINDOW_ROWS };
        windows as u64
    }

    pub(super) async fn read(&self, window: u64, encoder: &Arc<Encoder>) -> Result<Vec<RowWithSource>> {
        let start = window as usize * WINDOW_ROWS;
        let range = start..(start + WINDOW_ROWS).min(self.rows());
        let (mut found, mut first) = (Vec::with_capacity(range.len()), 0);
        for segment in &self.segments {
            let part = range.start.max(first)..range.end.min(first + segment.rows());
            if !part.is_empty() {
                let part = part.start - first..part.end - first;
                found.extend(segment.read(&self.context, part, encoder).await?);
            }
            first += segment.rows();
        }
        Ok(found)
    }

    /// Reads all rows once and counts them.
    pub async fn survey(&self, encoder: &Arc<Encoder>) -> Result<Survey> {
        let mut survey = Survey::default();
        for window in 0..self.windows() {
            for found in self.read(window, encoder).await? {
                survey.count(found);
            }
        }
        Ok(survey)
    }
}

/// A number that differs if the files differ. Its 48 bits are exact in JSON readers.
fn fingerprint(files: &[CorpusFile]) -> u64 {
    let mut hash = Sha256::new();
    for file in files {
        let e_tag = file.meta.e_tag.as_deref().unwrap_or_default();
        hash.update(format!("{}\0{}\0{e_tag}\n", file.path, file.meta.size));
    }
    hash.finalize().iter().take(6).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The order of an epoch's windows. While a table still grows, they come in the order in which they fill.
pub(super) fn order_of_windows(windows: u64, seed: u64, epoch: u64, as_they_fill: bool) -> Vec<u64> {
    match as_they_fill {
        true => (0..windows).collect(),
        false => random::order(windows as usize, seed, epoch).into_iter().map(|window| window as u64).collect(),
    }
}

pub(super) fn order_of_rows(rows: usize, seed: u64, epoch: u64, window: u64) -> Vec<usize> {
    random::order(rows, seed ^ OF_ROWS, epoch << 32 | window)
}
