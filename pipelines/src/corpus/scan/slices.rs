//! Slices: ranges of rows of one file, the unit that a run reads, writes and commits.

use std::sync::Arc;

use crate::corpus::{CorpusFile, FileRows};

#[derive(Debug, Clone)]
pub struct Slice {
    pub file: Arc<CorpusFile>,
    pub start: u64,
    pub end: u64,
    /// The first row of the row group that contains `start`.
    pub row_group_start: u64,
    pub only: Option<Arc<[u64]>>,
}

impl Slice {
    pub(crate) fn rows(&self) -> u64 {
        self.only.as_ref().map_or(self.end - self.start, |only| only.len() as u64)
    }

    pub(crate) fn end_at(&mut self, end: u64) {
        self.end = end;
        self.only = self.only.take().map(|only| only[..only.partition_point(|row| *row < end)].into());
    }
}

/// Cuts the open ranges of a file into slices of at most `most` rows, on a grid that does not depend on the open
/// ranges. The cells of the grid start at multiples of `most`, and also at row groups, unless these are smaller than a
/// slice. Returns each slice with the first row of its cell.
pub(crate) fn cut(file: &FileRows, open: &[(u64, u64)], most: u64) -> Vec<(u64, Slice)> {
    let mut slices = Vec::new();
    for (cell, last) in grid(&file.row_groups, most) {
        for (start, end) in open {
            let (start, end) = (cell.max(*start), last.min(*end));
            if start < end {
                let row_group_start = row_group_start(&file.row_groups, start);
                let only = file.left_of(start, end);
                slices.push((cell, Slice { file: Arc::clone(&file.file), start, end, row_group_start, only }));
            }
        }
    }
    slices.sort_by_key(|(_, slice)| slice.start);
    slices
}

/// The first row of the cell that contains `row`, in the grid of [`cut`].
pub(crate) fn cell_start(row_groups: &[u64], most: u64, row: u64) -> u64 {
    let cells = grid(row_groups, most);
    cells.iter().rev().map(|(start, _)| *start).find(|start| *start <= row).unwrap_or(0)
}

pub(crate) fn row_group_start(row_groups: &[u64], row: u64) -> u64 {
    let mut first = 0;
    for rows in row_groups {
        if row < first + rows {
            break;
        }
        first += rows;
    }
    first
}

fn grid(row_groups: &[u64], most: u64) -> Vec<(u64, u64)> {
    let mut cells: Vec<(u64, u64)> = Vec::new();
    let mut first = 0;
    for rows in row_groups {
        let group = (first, first + rows);
        first = group.1;
        match cells.last_mut() {
            Some(cell) if group.1 - cell.0 <= most => cell.1 = group.1,
            _ => {
                let starts = (group.0..group.1).step_by(most.max(1) as usize);
                cells.extend(starts.map(|start| (start, (start + most).min(group.1))));
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use crate::corpus::scan::slices::*;

    #[test]
    fn borders_do_not_depend_on_what_is_open() {
        assert_eq!(
            grid(&[100, 100, 250, 30, 30], 100),
            [(0, 100), (100, 200), (200, 300), (300, 400), (400, 480), (480, 510)]
        );
        assert_eq!(grid(&[10, 20, 30], 100), [(0, 60)]);
        assert_eq!(grid(&[], 100), []);
    }
}
