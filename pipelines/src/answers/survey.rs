//! What a folder of answers holds, from its listing and the keys of its segments.

use datafusion::common::Result;
use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use url::Url;

use crate::answers::folder::{Folder, Found, Segment};
use crate::answers::segment::Entry;
use crate::answers::{SEGMENTS_AT_ONCE, external};

/// Whether a segment is as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its keys can be read; an answer is checked when it is read.
    Whole,
    /// It cannot be read.
    Damaged,
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
    /// Segments that are damaged.
    pub damaged: u64,
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
    let look = async |segment: Segment| {
        Ok(match folder.entries(&segment).await.map_err(external)? {
            Found::Whole((_, entries)) => Some(summary(segment, &entries, State::Whole)),
            Found::Damaged(_) => Some(summary(segment, &[], State::Damaged)),
            // Compacted since the listing.
            Found::Gone => None,
        })
    };
    let found = futures::stream::iter(segments).map(look).buffered(SEGMENTS_AT_ONCE);
    found.try_filter_map(async |summary| Ok(summary)).try_collect().await
}

fn summary(segment: Segment, entries: &[Entry], state: State) -> SegmentSummary {
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
            damaged: segments.iter().filter(|segment| segment.state == State::Damaged).count() as u64,
            answers: segments.iter().map(|segment| segment.answers).sum(),
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            oldest: segments.iter().filter_map(|segment| segment.oldest).min(),
            newest: segments.iter().filter_map(|segment| segment.newest).max(),
        }
    }
}
