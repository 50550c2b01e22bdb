//! The files of a corpus: their list, their footers, and their failures.
//!
//! | module | holds |
//! |---|---|
//! | [`source`], [`listing`] | a location, and the files below it |
//! | [`delta`], [`deletion_vector`] | Delta tables |
//! | [`foreign`] | what is refused: files of other formats, and files of a table (Delta, Iceberg, Hudi) |
//! | [`file`](mod@file), [`file_rows`], [`failure`] | one file, its rows, its failure |
//! | [`json`], [`json_lines`], [`json_kinds`] | JSON lines, converted to Parquet |
//! | [`footer`], [`guard`] | footers, and panics of readers as file failures |

pub(crate) mod deletion_vector;
pub(crate) mod delta;
pub(crate) mod failure;
pub(crate) mod file;
pub(crate) mod file_rows;
pub(crate) mod footer;
pub(crate) mod foreign;
pub(crate) mod guard;
pub(crate) mod json;
pub(crate) mod json_kinds;
pub(crate) mod json_lines;
pub(crate) mod listing;
pub(crate) mod source;

/// Whether a file or folder of this name is hidden: tools that read folders of data skip it.
pub(crate) fn is_hidden(part: &str) -> bool {
    part.starts_with(['_', '.'])
}
