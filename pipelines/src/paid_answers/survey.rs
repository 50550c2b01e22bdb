//! What a folder of answers holds, from its listing and the tables of its segments.

use datafusion::common::Result;
use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use url::Url;

use super::folder::{Folder, Segment};
use super::segment::Table;
use super::{TABLES_AT_ONCE, external};

/// Whether a segment is as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its table and the length of its bodies are; bodies are checked when they are read.
    Whole,
    /// Something is missing or changed.
    Torn,
    /// A later version of asap wrote it.
    Newer,
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SegmentSummary {
    /// Its name in the folder.
    pub segment: String,
    /// When it was written, in milliseconds since 1970 (UTC).
    pub written: Option<i64>,
    /// Whole answers in it.
    pub answers: u64,
    /// Its bytes.
    pub bytes: u64,
    /// When its oldest answer came, in milliseconds since 1970 (UTC).
    pub oldest: Option<i64>,
    /// When its newest answer came, in milliseconds since 1970 (UTC).
    pub newest: Option<i64>,
    /// Whether it is as it was written.
    pub state: State,
}

/// All segments together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Segments in the folder.
    pub segments: u64,
    /// Segments that are torn.
    pub torn: u64,
    /// Whole answers; those to the same request count each.
    pub answers: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// When the oldest answer came, in milliseconds since 1970 (UTC).
    pub oldest: Option<i64>,
    /// When the newest answer came, in milliseconds since 1970 (UTC).
    pub newest: Option<i64>,
}

/// The segments of a folder of answers, in the order of writing.
///
/// # Errors
/// If the folder or one of its segments cannot be read.
pub async fn survey(url: &Url) -> Result<Vec<SegmentSummary>> {
    let folder = Folder::new(url)?;
    let segments = folder.list().await.map_err(external)?;
    let look =
        async |segment: Segment| Ok(folder.table(&segment).await.map_err(external)?.map(|table| (segment, table)));
    let found = futures::stream::iter(segments).map(look).buffered(TABLES_AT_ONCE);
    // A segment that is gone since the listing was compacted.
    found.try_filter_map(async |found| Ok(found.map(|(segment, table)| summary(segment, &table)))).try_collect().await
}

fn summary(segment: Segment, table: &Table) -> SegmentSummary {
    let (entries, state) = match table {
        Table::Newer => (&[][..], State::Newer),
        Table::Read { entries, torn: true } => (entries.as_slice(), State::Torn),
        Table::Read { entries, torn: false } => (entries.as_slice(), State::Whole),
    };
    SegmentSummary {
        written: segment.written(),
        segment: segment.name,
        answers: entries.len() as u64,
        bytes: segment.size,
        oldest: entries.iter().map(|entry| entry.time).min(),
        newest: entries.iter().map(|entry| entry.time).max(),
        state,
    }
}

impl Totals {
    /// The sums over segments.
    pub fn of(segments: &[SegmentSummary]) -> Self {
        Self {
            segments: segments.len() as u64,
            torn: segments.iter().filter(|segment| segment.state == State::Torn).count() as u64,
            answers: segments.iter().map(|segment| segment.answers).sum(),
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            oldest: segments.iter().filter_map(|segment| segment.oldest).min(),
            newest: segments.iter().filter_map(|segment| segment.newest).max(),
        }
    }
}
