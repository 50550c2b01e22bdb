//! The rows of each file that an output has, according to the transactions in its log.
//!
//! Each slice in the output is a transaction: the application id is the slice. The lowest bit of the version is 1 if
//! the slice is done and 0 if it was deleted. The other bits are the attempt that did it. Shards of rejects have the
//! attempt in their path, so rejects of a killed or overtaken attempt are not valid.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use datafusion::common::{DataFusionError, exec_datafusion_err};
use sha2::{Digest, Sha256};

use crate::corpus::Slice;
use crate::delta::LogState;
use crate::run::content_hashes::hex;

/// Prefix of the folders in which runs write shards. Each attempt has its own folder.
pub(crate) const ATTEMPT: &str = "asap-";

#[derive(Debug, Clone)]
pub struct RetriedSlice {
    pub slice: SliceName,
    pub before: Attempt,
    pub rows: Arc<[u64]>,
}

/// A name that is unique to one attempt to write slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt(u64);

impl Attempt {
    /// Bits of an attempt: with the done bit, it is an integer that every JSON reader represents exactly.
    const BITS: u32 = 48;

    pub(crate) fn new() -> Self {
        Self((uuid::Uuid::new_v4().as_u128() as u64) >> (u64::BITS - Self::BITS))
    }

    pub(crate) fn spread(self, end: usize) -> usize {
        (self.0 % end.max(1) as u64) as usize
    }

    /// The version of a transaction that marks a slice as done by this attempt.
    pub(crate) fn done(self) -> i64 {
        (self.0 as i64) << 1 | 1
    }

    pub(crate) fn deleted(self) -> i64 {
        (self.0 as i64) << 1
    }

    /// The attempt whose slice was deleted, given the version of the transaction.
    pub(crate) fn deleted_by(version: i64) -> Self {
        Self((version >> 1) as u64)
    }

    pub(crate) fn of(version: i64) -> Option<Self> {
        (version & 1 == 1).then_some(Self((version >> 1) as u64))
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

impl FromStr for Attempt {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self, DataFusionError> {
        let number = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 12);
        number
            .map(Self)
            .ok_or_else(|| exec_datafusion_err!("'{text}' is not an attempt: expected 12 hexadecimal digits"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileVersion {
    pub size: u64,
    /// The store's ETag, or the hash of the content on a file system.
    pub fingerprint: String,
}

/// A range of rows of one content of a file, in one table generation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SliceName {
    pub generation: u64,
    pub version: FileVersion,
    pub file_rows: u64,
    pub start: u64,
    pub end: u64,
    pub path: String,
}

const PREFIX: &str = "asap";

impl fmt::Display for SliceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, version: FileVersion { size, fingerprint }, file_rows, start, end, path } = self;
        write!(f, "{PREFIX}/{generation}/{size}-{fingerprint}/{file_rows}/{start}-{end}/{path}")
    }
}

impl FromStr for SliceName {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self, DataFusionError> {
        Self::parse(text).ok_or_else(|| exec_datafusion_err!("'{text}' is not the name of a slice"))
    }
}

impl SliceName {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(6, '/');
        let mut next = || parts.next();
        if next()? != PREFIX {
            return None;
        }
        let generation = next()?.parse().ok()?;
        let (size, fingerprint) = next()?.split_once('-')?;
        let version = FileVersion { size: size.parse().ok()?, fingerprint: fingerprint.to_string() };
        let file_rows = next()?.parse().ok()?;
        let (start, end) = next()?.split_once('-')?;
        let (start, end) = (start.parse().ok()?, end.parse().ok()?);
        Some(Self { generation, version, file_rows, start, end, path: next()?.to_string() })
    }

    pub(crate) fn rows(&self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn is_of_content_of(&self, other: &Self) -> bool {
        self.generation == other.generation && self.content_key() == other.content_key() && self.path == other.path
    }

    pub(crate) fn file_key(&self) -> String {
        file_key(&self.path)
    }

    pub(crate) fn content_key(&self) -> String {
        self.version.key(self.file_rows)
    }
}

pub(crate) fn file_key(path: &str) -> String {
    hex(&Sha256::digest(path)[..8])
}

impl FileVersion {
    /// A short name of a content with this many rows, for paths: 12 hexadecimal digits.
    pub(crate) fn key(&self, file_rows: u64) -> String {
        hex(&Sha256::digest(format!("{}-{}/{file_rows}", self.size, self.fingerprint))[..6])
    }
}

/// What the output must have of a slice at its commit. Otherwise another run has done the slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// None of its rows.
    Open,
    /// The slice itself, done by this attempt: some of its rejects are retried.
    Done(Attempt),
    /// Its file with another content, named by [`FileVersion::key`], whose rows it replaces.
    Other(String),
}

/// Stands for the attempt in paths if no row of the slice was done.
const OPEN: &str = "000000000000";
const REPLACES: char = 'r';

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str(OPEN),
            Self::Done(attempt) => write!(f, "{attempt}"),
            Self::Other(content) => write!(f, "{REPLACES}{content}"),
        }
    }
}

impl FromStr for Before {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self, DataFusionError> {
        match (text, text.strip_prefix(REPLACES)) {
            (OPEN, _) => Ok(Self::Open),
            (_, Some(content)) => Ok(Self::Other(content.to_string())),
            _ => Ok(Self::Done(text.parse()?)),
        }
    }
}

#[derive(Debug, Clone)]
pub struct OpenSlice {
    pub slice: Slice,
    pub name: SliceName,
    /// The first row of its cell in the grid of the file. Parts divide slices by cell.
    pub cell: u64,
    pub group: usize,
    pub before: Before,
}

impl OpenSlice {
    /// Whether the commit that adds its rows also deletes the old rows of its file.
    pub(crate) fn replaces(&self) -> bool {
        matches!(self.before, Before::Other(_))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub generation: u64,
    pub rows: u64,
    files: HashMap<String, HeldFile>,
    deleted: HashSet<String>,
    version: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct HeldFile {
    pub version: FileVersion,
    pub rows: u64,
    /// The done ranges by their first row: their end, and their attempt.
    pub done: BTreeMap<u64, (u64, Attempt)>,
}

impl HeldFile {
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.done.range(..end).next_back().is_some_and(|(_, (last, _))| *last > start)
    }

    pub(crate) fn open(&self) -> Vec<(u64, u64)> {
        gaps(self.rows, self.done.iter().map(|(start, (end, _))| (*start, *end)))
    }

    pub(crate) fn rows_done(&self) -> u64 {
        self.done.iter().map(|(start, (end, _))| end - start).sum()
    }
}

/// The rows of a file outside these ascending ranges.
pub(crate) fn gaps(rows: u64, ranges: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = 0;
    for (start, end) in ranges {
        gaps.push((at, start));
        at = at.max(end);
    }
    gaps.push((at, rows));
    gaps.retain(|(start, end)| start < end);
    gaps
}

impl Ledger {
    pub(crate) fn of_generation(generation: u64) -> Self {
        Self { generation, ..Self::default() }
    }

    pub(crate) fn follow(&mut self, state: &LogState, generation: u64) {
        if self.version.is_none() || self.generation != generation {
            *self = Self::of_generation(generation);
            state.transactions.values().for_each(|found| self.apply(&found.app_id, found.version));
        } else {
            let known = state.recent.partition_point(|(at, _)| Some(*at) <= self.version);
            state.recent[known..].iter().for_each(|(_, found)| self.apply(&found.app_id, found.version));
        }
        self.version = Some(state.version);
    }

    fn apply(&mut self, name: &str, version: i64) {
        let Some(slice) = SliceName::parse(name).filter(|slice| slice.generation == self.generation) else { return };
        let SliceName { version: content, file_rows, start, end, path, .. } = slice;
        match Attempt::of(version) {
            Some(attempt) => {
                self.deleted.remove(&path);
                let new = || HeldFile { version: content.clone(), rows: file_rows, done: BTreeMap::new() };
                let held = self.files.entry(path).or_insert_with(new);
                if held.version != content {
                    self.rows -= held.rows_done();
                    *held = new();
                }
                if held.done.insert(start, (end, attempt)).is_none() {
                    self.rows += end - start;
                }
            }
            None => {
                let Some(held) = self.files.get_mut(&path) else {
                    self.deleted.insert(path);
                    return;
                };
                // Other slices of the same rows may have been done since.
                let is_this = held.version == content && held.done.get(&start).is_some_and(|(last, _)| *last == end);
                if is_this && held.done.remove(&start).is_some() {
                    self.rows -= end - start;
                }
                if held.done.is_empty() {
                    self.files.remove(&path);
                    self.deleted.insert(path);
                }
            }
        }
    }

    pub(crate) fn forget(&mut self, path: &str) {
        self.rows -= self.files.remove(path).map_or(0, |held| held.rows_done());
    }

    pub(crate) fn file(&self, path: &str) -> Option<&HeldFile> {
        self.files.get(path)
    }

    pub(crate) fn is_deleted(&self, path: &str) -> bool {
        self.deleted.contains(path)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&String, &HeldFile)> {
        self.files.iter()
    }

    /// The attempt that did exactly this slice; None if there is none.
    pub(crate) fn attempt_of(&self, slice: &SliceName) -> Option<Attempt> {
        let held = self.files.get(&slice.path).filter(|held| held.version == slice.version)?;
        held.done.get(&slice.start).filter(|(end, _)| *end == slice.end).map(|(_, attempt)| *attempt)
    }

    pub(crate) fn slices(&self, path: &str) -> Vec<(SliceName, Attempt)> {
        let Some(held) = self.files.get(path) else { return vec![] };
        let done = held.done.iter();
        let named = |(start, (end, by)): (&u64, &(u64, Attempt))| {
            (self.name(path, &held.version, held.rows, (*start, *end)), *by)
        };
        done.map(named).collect()
    }

    /// The name of a range of rows of a file.
    pub(crate) fn name(&self, path: &str, version: &FileVersion, file_rows: u64, range: (u64, u64)) -> SliceName {
        let (generation, (start, end)) = (self.generation, range);
        SliceName { generation, version: version.clone(), file_rows, start, end, path: path.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use crate::run::ledger::*;

    fn name(version: &str, start: u64, end: u64) -> SliceName {
        let version = FileVersion { size: 7, fingerprint: version.to_string() };
        SliceName { generation: 0, version, file_rows: 100, start, end, path: "a/b c.parquet".to_string() }
    }

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let slice = name("etag-x-1", 10, 20);
        assert_eq!(slice.to_string(), "asap/0/7-etag-x-1/100/10-20/a/b c.parquet");
        assert_eq!(slice.to_string().parse::<SliceName>().unwrap(), slice);
        assert!("delta-spark/3".parse::<SliceName>().is_err());
        let attempt = Attempt::new();
        assert_eq!(attempt.to_string().parse::<Attempt>().unwrap(), attempt);
        assert_eq!((Attempt::of(attempt.done()), Attempt::of(attempt.deleted())), (Some(attempt), None));
    }

    #[test]
    fn done_ranges_are_subtracted_as_ranges() {
        let mut ledger = Ledger::default();
        let attempt = Attempt::new();
        for (start, end) in [(0, 10), (30, 40), (90, 100)] {
            ledger.apply(&name("x", start, end).to_string(), attempt.done());
        }
        let held = ledger.file("a/b c.parquet").unwrap();
        assert_eq!(held.open(), [(10, 30), (40, 90)]);
        assert!(held.overlaps(5, 15) && held.overlaps(35, 36) && !held.overlaps(10, 30) && !held.overlaps(40, 90));
        assert_eq!(ledger.rows, 30);
    }

    #[test]
    fn a_file_that_changes_and_changes_back_is_open_again() {
        let mut ledger = Ledger::default();
        let attempt = Attempt::new();
        ledger.apply(&name("x", 0, 100).to_string(), attempt.done());
        ledger.apply(&name("x", 0, 100).to_string(), attempt.deleted());
        ledger.apply(&name("y", 0, 100).to_string(), attempt.done());
        assert_eq!(ledger.file("a/b c.parquet").unwrap().version.fingerprint, "y");
        ledger.apply(&name("y", 0, 100).to_string(), attempt.deleted());
        assert!(ledger.file("a/b c.parquet").is_none() && ledger.is_deleted("a/b c.parquet"));
        ledger.apply(&name("x", 0, 100).to_string(), attempt.done());
        assert_eq!((ledger.rows, ledger.slices("a/b c.parquet").len()), (100, 1));
        assert!(!ledger.is_deleted("a/b c.parquet"));
    }

    #[test]
    fn a_range_that_was_deleted_leaves_others_that_begin_where_it_did() {
        let attempt = Attempt::new();
        let said = [(name("x", 0, 50), attempt.done()), (name("x", 0, 100), attempt.deleted())];
        for order in [[0, 1], [1, 0]] {
            let mut ledger = Ledger::default();
            order.iter().for_each(|index| ledger.apply(&said[*index].0.to_string(), said[*index].1));
            assert_eq!((ledger.rows, ledger.is_deleted("a/b c.parquet")), (50, false));
        }
    }
}
