//! The files of a corpus: which there are, what their footers hold, and what is wrong with them.
//!
//! | module | holds |
//! |---|---|
//! | [`source`], [`listing`] | a location, and the files below it |
//! | [`delta`], [`deletion_vector`], [`foreign_tables`] | Delta tables; parts of tables of other formats, which are refused |
//! | [`file`], [`file_rows`], [`failure`] | one file, its rows, why it cannot be read |
//! | [`json`] | JSON lines, which are read as Parquet |
//! | [`footer`], [`groups`] | footers, and files of one schema |

pub(crate) mod deletion_vector;
pub(crate) mod delta;
pub(crate) mod failure;
pub(crate) mod file;
pub(crate) mod file_rows;
pub(crate) mod footer;
pub(crate) mod foreign_tables;
pub(crate) mod groups;
pub(crate) mod json;
pub(crate) mod listing;
pub(crate) mod source;
