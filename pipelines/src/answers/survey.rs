//! Summarizes a folder of answers from its listing and the keys of its segments.

use datafusion::common::Result;
use futures::{StreamExt, TryStreamExt};
use serde::Serialize;
use url::Url;

use crate::answers::folder::{Folder, Segment, SegmentRead};
use crate::answers::segment::Entry;
use crate::answers::{SEGMENTS_AT_ONCE, external};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SegmentState {
    /// The keys can be read; an answer is checked only when it is read.
    Whole,
    Damaged,
}

/// Times are in milliseconds since 1970 (UTC).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SegmentSummary {
    pub segment: String,
    pub written: Option<i64>,
    pub answers: u64,
    pub bytes: u64,
    pub oldest: Option<i64>,
    pub newest: Option<i64>,
    pub state: SegmentState,
}

/// Times are in milliseconds since 1970 (UTC).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub segments: u64,
    pub damaged: u64,
    /// Undamaged answers, including several to the same request.
    pub answers: u64,
    pub bytes: u64,
    pub oldest: Option<i64>,
    pub newest: Option<i64>,
}

/// The segments of a folder of answers in writing order.
pub async fn survey(url: &Url) -> Result<Vec<SegmentSummary>> {
    let folder = Folder::new(url)?;
    let segments = folder.list().await.map_err(external)?;
    let look = async |segment: Segment| {
        Ok(match folder.entries(&segment).await.map_err(external)? {
            SegmentRead::Whole((_, entries)) => Some(summary(segment, &entries, SegmentState::Whole)),
            SegmentRead::Damaged(_) => Some(summary(segment, &[], SegmentState::Damaged)),
            // Compacted since the listing.
            SegmentRead::Gone => None,
        })
    };
    let found = futures::stream::iter(segments).map(look).buffered(SEGMENTS_AT_ONCE);
    found.try_filter_map(async |summary| Ok(summary)).try_collect().await
}

fn summary(segment: Segment, entries: &[Entry], state: SegmentState) -> SegmentSummary {
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
    pub fn of(segments: &[SegmentSummary]) -> Self {
        Self {
            segments: segments.len() as u64,
            damaged: segments.iter().filter(|segment| segment.state == SegmentState::Damaged).count() as u64,
            answers: segments.iter().map(|segment| segment.answers).sum(),
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            oldest: segments.iter().filter_map(|segment| segment.oldest).min(),
            newest: segments.iter().filter_map(|segment| segment.newest).max(),
        }
    }
}
