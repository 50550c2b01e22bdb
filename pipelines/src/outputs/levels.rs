//! Checks that the definition and repetition levels of a Parquet file are within their bounds. The Arrow reader does
//! not check this, but readers of other engines refuse such a file.

use bytes::Bytes;
use datafusion::common::{Result, exec_err};
use datafusion::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use datafusion::parquet::data_type::DataType;
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};

const ROWS: usize = 8192;

pub(crate) fn check(file: Bytes) -> Result<()> {
    let reader = SerializedFileReader::new(file)?;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        for (index, column) in group.metadata().columns().iter().enumerate() {
            let described = column.column_descr();
            let bounds = (described.max_def_level(), described.max_rep_level());
            let found = match group.get_column_reader(index)? {
                ColumnReader::BoolColumnReader(column) => greatest(column)?,
                ColumnReader::Int32ColumnReader(column) => greatest(column)?,
                ColumnReader::Int64ColumnReader(column) => greatest(column)?,
                ColumnReader::Int96ColumnReader(column) => greatest(column)?,
                ColumnReader::FloatColumnReader(column) => greatest(column)?,
                ColumnReader::DoubleColumnReader(column) => greatest(column)?,
                ColumnReader::ByteArrayColumnReader(column) => greatest(column)?,
                ColumnReader::FixedLenByteArrayColumnReader(column) => greatest(column)?,
            };
            if found.0 > bounds.0 || found.1 > bounds.1 {
                return exec_err!(
                    "the column {} has definition and repetition levels up to {} and {}, but its schema allows {} and {}",
                    described.path(),
                    found.0,
                    found.1,
                    bounds.0,
                    bounds.1
                );
            }
        }
    }
    Ok(())
}

fn greatest<T: DataType>(mut column: ColumnReaderImpl<T>) -> ParquetResult<(i16, i16)> {
    let (mut definitions, mut repetitions, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut greatest = (0, 0);
    loop {
        definitions.clear();
        repetitions.clear();
        values.clear();
        let read = column.read_records(ROWS, Some(&mut definitions), Some(&mut repetitions), &mut values)?;
        let of = |levels: &[i16]| levels.iter().copied().max().unwrap_or(0);
        greatest = (greatest.0.max(of(&definitions)), greatest.1.max(of(&repetitions)));
        if read.0 == 0 {
            return Ok(greatest);
        }
    }
}
