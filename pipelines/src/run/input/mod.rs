//! The inputs of a run: new and changed files, and Delta tables version by version.
//!
//! | module | holds |
//! |---|---|
//! | [`files`] | the files of a request, divided into done, changed and new |
//! | [`content_hashes`] | content hashes of files, which reveal an edit of the same size |
//! | [`delta_inputs`] | Delta tables: how far each was followed, and what comes next |

pub(crate) mod content_hashes;
pub(crate) mod delta_inputs;
pub mod files;
