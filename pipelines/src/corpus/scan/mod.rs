//! Reads the rows of files: whole files as a table, or slices of them.
//!
//! | module | holds |
//! |---|---|
//! | [`table`], [`open_files`] | the table provider over the files of one schema |
//! | [`slices`], [`slices_table`], [`read_slices`] | a slice of a file, and a table over slices |
//! | [`first_rows`], [`small_batches`] | the first rows of files; batches of a bounded size |
//! | [`guard`] | panics of readers as file failures |

pub(crate) mod first_rows;
pub(crate) mod guard;
pub(crate) mod open_files;
pub(crate) mod read_slices;
pub(crate) mod slices;
pub(crate) mod slices_table;
pub(crate) mod small_batches;
pub(crate) mod table;
