//! The rows of a file: its row groups and deleted rows.

use std::sync::Arc;

use datafusion::parquet::arrow::arrow_reader::RowSelection;

use crate::corpus::CorpusFile;

/// Bytes of the compressed file per batch: small enough that a batch of chains stays in memory and reaches the model
/// soon.
const BATCH_BYTES: u64 = 1 << 20;
/// Minimum and maximum rows of a batch. The maximum is the engine's default.
const BATCH_ROWS: (u64, u64) = (64, 8192);

pub(crate) fn of_batch<'a>(files: impl Iterator<Item = &'a FileRows>) -> usize {
    let (rows, bytes) = files.fold((0, 0), |(rows, bytes), held| (rows + held.rows(), bytes + held.file.meta.size));
    let (least, most) = BATCH_ROWS;
    (rows.saturating_mul(BATCH_BYTES) / bytes.max(1)).clamp(least, most) as usize
}

#[derive(Debug, Clone)]
pub struct FileRows {
    pub file: Arc<CorpusFile>,
    pub row_groups: Arc<[u64]>,
    pub deleted: Arc<[u64]>,
}

impl FileRows {
    pub(crate) fn rows(&self) -> u64 {
        self.row_groups.iter().sum()
    }

    pub fn rows_left(&self) -> u64 {
        self.rows().saturating_sub(self.deleted.len() as u64)
    }

    /// The rows of a range that are not deleted; None if no row is deleted.
    pub(crate) fn left_of(&self, start: u64, end: u64) -> Option<Arc<[u64]>> {
        let at = |row: u64| self.deleted.partition_point(|deleted| *deleted < row);
        let deleted = &self.deleted[at(start)..at(end)];
        let is_left = |row: &u64| deleted.binary_search(row).is_err();
        (!deleted.is_empty()).then(|| (start..end).filter(is_left).collect())
    }

    pub(crate) fn only(&self, rows: &[u64]) -> Self {
        let is_wanted = |row: &u64| rows.binary_search(row).is_ok();
        let deleted = (0..self.rows()).filter(|row| !is_wanted(row) || self.deleted.binary_search(row).is_ok());
        Self { deleted: deleted.collect(), ..self.clone() }
    }

    pub(crate) fn left(&self) -> RowSelection {
        let is_left = |row| Some(self.deleted.binary_search(&row).is_err());
        RowSelection::from_filters(&[(0..self.rows()).map(is_left).collect()])
    }
}
