//! What a run reads: files that are new or have changed, and Delta tables version by version.
//!
//! | module | holds |
//! |---|---|
//! | [`files`] | the files of a request, divided into done, changed and new |
//! | [`content_hashes`] | what a file holds, by hash, so that an edit of the same size is noticed |
//! | [`delta_inputs`] | Delta tables: how far each is read, and what follows |

pub(crate) mod content_hashes;
pub(crate) mod delta_inputs;
pub mod files;
