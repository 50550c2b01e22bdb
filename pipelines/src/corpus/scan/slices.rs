//! Slices: ranges of rows of one file, the unit that a run reads, writes and commits.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::{Result, exec_datafusion_err, internal_datafusion_err};
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::ObjectMeta;
use object_store::path::Path;

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
/// ranges. Its cells start at multiples of `most` and, if row groups are not smaller than a slice, at row groups.
/// Returns pairs of the first row of the cell and the slice.
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

/// The schema of slices in a plan: one row per slice, with everything needed to read it.
pub(crate) fn schema() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let number = |name: &str| Field::new(name, DataType::UInt64, false);
    let only = Field::new("only", DataType::List(Arc::new(Field::new_list_field(DataType::UInt64, true))), true);
    Arc::new(Schema::new(vec![
        text("path", false),
        text("name", false),
        text("store", false),
        text("location", false),
        text("e_tag", true),
        number("size"),
        number("start"),
        number("end"),
        number("row_group_start"),
        only,
        Field::new("folders", DataType::Utf8, false),
    ]))
}

pub(crate) fn encode(slices: &[Slice]) -> Result<RecordBatch> {
    let text = |of: fn(&CorpusFile) -> Option<String>| -> ArrayRef {
        Arc::new(StringArray::from_iter(slices.iter().map(|slice| of(&slice.file))))
    };
    let number = |of: fn(&Slice) -> u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(slices.iter().map(of))) };
    let only = slices.iter().map(|slice| slice.only.as_ref().map(|only| only.iter().copied().map(Some)));
    let folders = slices.iter().map(|slice| serde_json::to_string(&slice.file.partitions));
    let folders = folders.collect::<Result<Vec<_>, _>>().map_err(|error| internal_datafusion_err!("{error}"))?;
    let columns: Vec<ArrayRef> = vec![
        text(|file| Some(file.path.clone())),
        text(|file| Some(file.name.clone())),
        text(|file| Some(file.store_url.as_str().to_string())),
        text(|file| Some(file.meta.location.to_string())),
        text(|file| file.meta.e_tag.clone()),
        number(|slice| slice.file.meta.size),
        number(|slice| slice.start),
        number(|slice| slice.end),
        number(|slice| slice.row_group_start),
        Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(only)),
        Arc::new(StringArray::from(folders)),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

pub(crate) fn decode(batch: &RecordBatch) -> Result<Vec<Slice>> {
    let column = |name: &str| {
        batch
            .column_by_name(name)
            .ok_or_else(|| exec_datafusion_err!("a slice has no {name}: another version of asap made it"))
    };
    let text = |name: &str, row: usize| column(name).map(|column| column.as_string::<i32>().value(row).to_string());
    let number = |name: &str, row: usize| column(name).map(|column| column.as_primitive::<UInt64Type>().value(row));
    let slice = |row: usize| {
        let e_tag = column("e_tag")?.is_valid(row).then(|| text("e_tag", row)).transpose()?;
        let only = column("only")?.as_list::<i32>();
        let only = only.is_valid(row).then(|| only.value(row).as_primitive::<UInt64Type>().values().to_vec().into());
        let partitions = serde_json::from_str(&text("folders", row)?)
            .map_err(|error| exec_datafusion_err!("the folders of a slice cannot be read: {error}"))?;
        let file = CorpusFile {
            path: text("path", row)?,
            name: text("name", row)?,
            store_url: ObjectStoreUrl::parse(text("store", row)?)?,
            meta: ObjectMeta {
                location: Path::parse(text("location", row)?).map_err(object_store::Error::from)?,
                // Not needed after planning.
                last_modified: Default::default(),
                size: number("size", row)?,
                e_tag,
                version: None,
            },
            partitions,
            // Already resolved to rows and columns.
            in_table: None,
            temporary: None,
        };
        Ok(Slice {
            file: Arc::new(file),
            start: number("start", row)?,
            end: number("end", row)?,
            row_group_start: number("row_group_start", row)?,
            only,
        })
    };
    (0..batch.num_rows()).map(slice).collect()
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
