//! Reads the rows of files: whole files as a table, or slices of them.
//!
//! | module | holds |
//! |---|---|
//! | [`groups`], [`table`] | files of one schema, and the table provider over them |
//! | [`slices`], [`read_slices`], [`open_files`] | a slice of a file, and how its rows are read |
//! | [`first_rows`], [`small_batches`] | the first rows of files; batches of a bounded size |

pub(crate) mod first_rows;
pub(crate) mod groups;
pub(crate) mod open_files;
pub(crate) mod read_slices;
pub(crate) mod slices;
pub(crate) mod small_batches;
pub(crate) mod table;
