//! Open files: one reader reads all slices of a row group in order, so that the store sends its bytes once, whatever
//! the number of slices.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use datafusion::parquet::arrow::async_reader::{ParquetRecordBatchStream, ParquetRecordBatchStreamBuilder};
use datafusion::parquet::file::metadata::ParquetMetaData;
use object_store::ObjectStore;
use tokio::sync::Notify;

use crate::corpus::CorpusFile;
use crate::corpus::files::footer;
use crate::corpus::files::guard::guarded_next;
use crate::corpus::scan::slices::Slice;
use crate::object_reader::ObjectReader;

/// Maximum readers that wait for the next slice of their row group. Above it, the oldest is dropped.
const WAITING_READERS: usize = 4;
const KEPT_FOOTERS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    state: Mutex<OpenFilesState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct OpenFilesState {
    footers: Vec<(FileKey, Arc<ParquetMetaData>)>,
    readers: Vec<Entry>,
    next_number: u64,
}

type FileKey = (String, String, Option<String>);

#[derive(Debug)]
struct Entry {
    number: u64,
    file: FileKey,
    at: u64,
    reader: Option<FileReader>,
}

/// The right to read a slice after the readers of earlier rows in its row group are done. Dropping a claim without
/// leaving a reader releases the claims that wait for it.
#[derive(Debug)]
pub(crate) struct Claim {
    open: Arc<OpenFiles>,
    number: u64,
    after: Option<u64>,
}

fn key(file: &CorpusFile) -> FileKey {
    (file.store_url.as_str().to_string(), file.meta.location.to_string(), file.meta.e_tag.clone())
}

impl OpenFiles {
    fn lock(&self) -> MutexGuard<'_, OpenFilesState> {
        // The state is consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn footer(&self, store: &dyn ObjectStore, file: &CorpusFile) -> Result<Arc<ParquetMetaData>> {
        let key = key(file);
        let held = self.lock().footers.iter().find(|(held, _)| *held == key).map(|(_, footer)| Arc::clone(footer));
        if let Some(footer) = held {
            return Ok(footer);
        }
        let footer = Arc::new(footer::metadata(store, &file.meta, &file.name).await?);
        let mut state = self.lock();
        if state.footers.len() == KEPT_FOOTERS {
            state.footers.remove(0);
        }
        state.footers.push((key, Arc::clone(&footer)));
        Ok(footer)
    }

    /// Announces that a slice will be read. Claims are made in row order, before any read.
    pub(crate) fn claim(self: &Arc<Self>, slice: &Slice) -> Claim {
        let mut state = self.lock();
        let (file, number) = (key(&slice.file), state.next_number);
        state.next_number += 1;
        // A reader that ends at the start of a row group has nothing to share.
        let before = state
            .readers
            .iter()
            .filter(|entry| entry.file == file && entry.at > slice.row_group_start && entry.at <= slice.start);
        let after = before.max_by_key(|entry| entry.at).map(|entry| entry.number);
        state.readers.push(Entry { number, file, at: slice.end, reader: None });
        Claim { open: Arc::clone(self), number, after }
    }

    /// The reader that a claim left, if any. Pending while the claim is at work.
    fn take(&self, number: u64) -> Poll<Option<FileReader>> {
        let readers = &mut self.lock().readers;
        match readers.iter().position(|entry| entry.number == number) {
            None => Poll::Ready(None),
            Some(index) if readers[index].reader.is_none() => Poll::Pending,
            Some(index) => Poll::Ready(readers.remove(index).reader),
        }
    }
}

impl Claim {
    pub(crate) async fn reader(&self) -> Option<FileReader> {
        let after = self.after?;
        loop {
            let changed = self.open.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.open.take(after) {
                Poll::Ready(reader) => return reader,
                Poll::Pending => changed.await,
            }
        }
    }

    pub(crate) fn leave(self, reader: FileReader) {
        let mut state = self.open.lock();
        if let Some(entry) = state.readers.iter_mut().find(|entry| entry.number == self.number) {
            entry.reader = Some(reader);
        }
        let mut waiting = state.readers.iter().enumerate().filter(|(_, entry)| entry.reader.is_some());
        if let Some((oldest, _)) = waiting.next()
            && waiting.count() >= WAITING_READERS
        {
            state.readers.remove(oldest);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.open.lock().readers.retain(|entry| entry.number != self.number || entry.reader.is_some());
        self.open.changed.notify_waiters();
    }
}

pub(crate) struct FileReader {
    stream: ParquetRecordBatchStream<ObjectReader>,
    rest: Option<RecordBatch>,
    at: u64,
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader").field("at", &self.at).finish_non_exhaustive()
    }
}

impl FileReader {
    /// Opens the row groups that contain these ranges of rows. Each is fetched when its rows are requested.
    pub(crate) fn open(
        store: Arc<dyn ObjectStore>,
        file: &CorpusFile,
        footer: &Arc<ParquetMetaData>,
        ranges: &[Range<u64>],
        columns: &[usize],
        batch_rows: usize,
    ) -> Result<Self> {
        let rows = footer.row_groups().iter().map(|group| group.num_rows() as usize).sum();
        let in_file = ranges.iter().map(|range| (range.start as usize).min(rows)..(range.end as usize).min(rows));
        let selection = RowSelection::from_consecutive_ranges(in_file, rows);
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(footer), ArrowReaderOptions::new())?;
        let footer = Some(Arc::clone(footer));
        let reader = ObjectReader { store, object: file.meta.clone(), prefetch: None, footer };
        let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata);
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        let stream = builder.with_projection(mask).with_row_selection(selection).with_batch_size(batch_rows).build()?;
        Ok(Self { stream, rest: None, at: ranges.first().map_or(0, |range| range.start) })
    }

    /// Returns the next rows before `end`, or None. Skips rows before `start`.
    pub(crate) async fn next(&mut self, start: u64, end: u64) -> Result<Option<RecordBatch>> {
        while self.at < end {
            let batch = match self.rest.take() {
                Some(rest) => rest,
                None => match guarded_next(&mut self.stream).await? {
                    Some(batch) => batch,
                    None => return Ok(None),
                },
            };
            let rows = batch.num_rows() as u64;
            let (skipped, until) = (start.saturating_sub(self.at).min(rows), (end - self.at).min(rows));
            if until < rows {
                self.rest = Some(batch.slice(until as usize, (rows - until) as usize));
            }
            self.at += until;
            if skipped < until {
                return Ok(Some(batch.slice(skipped as usize, (until - skipped) as usize)));
            }
        }
        Ok(None)
    }

    pub(crate) async fn next_selected(&mut self) -> Result<Option<RecordBatch>> {
        guarded_next(&mut self.stream).await
    }
}
