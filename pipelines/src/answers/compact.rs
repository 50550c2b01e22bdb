//! Compacts answers: few large segments replace many small ones, without damaged, repeated or old answers.

use std::collections::HashSet;

use asap_llm::request::RequestKey;
use asap_llm::store::StoreError;
use datafusion::common::Result;
use serde::Serialize;
use url::Url;

use crate::answers::external;
use crate::answers::folder::{Folder, Segment, Unread};
use crate::answers::segment::Record;

/// A segment of this many bytes stays unchanged, unless one of its answers is removed.
const LARGE_BYTES: u64 = 16 << 20;
/// Bytes of answers at which a new segment is written. They are in memory until then.
const TARGET_BYTES: usize = 64 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Compacted {
    /// Whether this was a dry run, which changes nothing and gives what a run would.
    pub dry_run: bool,
    pub segments_before: u64,
    pub segments_after: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub answers: u64,
    pub answers_too_old: u64,
    /// Removed answers to a request that has an earlier answer.
    pub answers_repeated: u64,
    /// Damaged segments; their undamaged answers are kept.
    pub segments_damaged: u64,
    /// Removed files of segments that killed processes did not finish.
    pub unfinished_removed: u64,
}

/// Compacts an answer cache, or finds out what that would do. With `oldest` (milliseconds since 1970, UTC) it removes earlier answers. It may run
/// while other processes read and write the folder, and may be stopped at any moment: nothing is removed before its
/// content is stored elsewhere.
///
/// # Errors
/// If the store fails; all answers still exist then.
pub async fn compact(url: &Url, oldest: Option<i64>, dry_run: bool) -> Result<Compacted> {
    let (folder, done) = (Folder::new(url)?, Compacted { dry_run, ..Compacted::default() });
    let mut compaction = Compaction { folder, oldest, seen: HashSet::new(), open: Batch::default(), done };
    compaction.run().await.map_err(external)?;
    compaction.done.unfinished_removed = compaction.folder.remove_unfinished(dry_run).map_err(external)?;
    Ok(compaction.done)
}

struct Compaction {
    folder: Folder,
    oldest: Option<i64>,
    seen: HashSet<RequestKey>,
    open: Batch,
    done: Compacted,
}

#[derive(Default)]
struct Batch {
    segments: Vec<Segment>,
    records: Vec<Record>,
    bytes: usize,
    shrinks: bool,
}

impl Compaction {
    async fn run(&mut self) -> std::result::Result<(), StoreError> {
        for segment in self.folder.list().await? {
            self.done.segments_before += 1;
            self.done.bytes_before += segment.size;
            self.take(segment).await?;
            if self.open.bytes >= TARGET_BYTES {
                self.close().await?;
            }
        }
        self.close().await
    }

    async fn take(&mut self, segment: Segment) -> std::result::Result<(), StoreError> {
        let read = async {
            let (metadata, entries) = self.folder.entries(&segment).await?;
            self.folder.records(&segment, metadata, 0..entries.len()).await
        };
        let (read, mut is_damaged) = match read.await {
            Ok(records) => (records, false),
            Err(Unread::Damaged(_)) => (vec![], true),
            // Another process compacted it.
            Err(Unread::Missing) => return Ok(()),
            Err(Unread::Failed(error)) => return Err(error),
        };
        let all = read.len();
        let mut records = Vec::with_capacity(all);
        for record in read {
            match record {
                None => is_damaged = true,
                Some(record) if self.oldest.is_some_and(|oldest| record.time < oldest) => {
                    self.done.answers_too_old += 1;
                }
                Some(record) if !self.seen.insert(record.key) => self.done.answers_repeated += 1,
                Some(record) => records.push(record),
            }
        }
        self.done.segments_damaged += u64::from(is_damaged);
        self.done.answers += records.len() as u64;
        let shrinks = is_damaged || records.len() < all;
        if segment.size >= LARGE_BYTES && !shrinks {
            self.stay(&segment);
            return Ok(());
        }
        self.open.bytes += records.iter().map(Record::bytes).sum::<usize>();
        self.open.records.append(&mut records);
        self.open.segments.push(segment);
        self.open.shrinks |= shrinks;
        Ok(())
    }

    /// Writes the open batch, and then removes its source segments.
    async fn close(&mut self) -> std::result::Result<(), StoreError> {
        let batch = std::mem::take(&mut self.open);
        if let [segment] = batch.segments.as_slice()
            && !batch.shrinks
        {
            self.stay(segment);
            return Ok(());
        }
        let Some(first) = batch.segments.first() else { return Ok(()) };
        if !batch.records.is_empty() {
            // It takes the position of its first segment, so that first answers stay first.
            let time = first.written().unwrap_or(0);
            let written = match self.done.dry_run {
                false => self.folder.write(time, &batch.records).await?,
                true => self.folder.encode(time, &batch.records)?.0,
            };
            self.stay(&written);
        }
        if self.done.dry_run {
            return Ok(());
        }
        for segment in &batch.segments {
            self.folder.remove(&segment.name).await?;
        }
        Ok(())
    }

    fn stay(&mut self, segment: &Segment) {
        self.done.segments_after += 1;
        self.done.bytes_after += segment.size;
    }
}
