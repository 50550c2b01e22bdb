//! Sums up an answer cache from its listing and the keys of its segments.

use datafusion::common::Result;
use futures::StreamExt;
use serde::Serialize;
use url::Url;

use crate::answers::folder::{Folder, Segment, Unread};
use crate::answers::{SEGMENTS_AT_ONCE, external};

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

/// Sums up an answer cache. The keys are read; an answer is checked only when it is read.
pub async fn survey(url: &Url) -> Result<Totals> {
    let folder = Folder::new(url)?;
    let segments = folder.list().await.map_err(external)?;
    let look = async |segment: Segment| (segment.size, folder.entries(&segment).await);
    let mut found = futures::stream::iter(segments).map(look).buffered(SEGMENTS_AT_ONCE);
    let mut totals = Totals::default();
    while let Some((bytes, read)) = found.next().await {
        let entries = match read {
            Ok((_, entries)) => entries,
            Err(Unread::Damaged(_)) => {
                totals.damaged += 1;
                vec![]
            }
            // Compacted since the listing.
            Err(Unread::Missing) => continue,
            Err(Unread::Failed(error)) => return Err(external(error)),
        };
        totals.segments += 1;
        totals.bytes += bytes;
        totals.answers += entries.len() as u64;
        let times = || entries.iter().map(|entry| entry.time);
        totals.oldest = times().chain(totals.oldest).min();
        totals.newest = times().chain(totals.newest).max();
    }
    Ok(totals)
}
