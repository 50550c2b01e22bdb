//! The Hugging Face Hub by its HTTP API. Datasets are read in ranges, and models are downloaded into the Hub's cache.
//!
//! | module | holds |
//! |---|---|
//! | `hub` | requests: token, redirects, retries, refusals |
//! | `tree` | commits and listings |
//! | `read` | the bytes of a file, also over connections that break |
//! | `cache` | the Hub's cache on this machine |
//! | `models` | downloads of models |
//! | `environment` | the variables that Hugging Face's own tools read |

mod cache;
mod environment;
mod hub;
mod models;
mod read;
mod tree;

use std::io;
use std::path::PathBuf;

pub use environment::set_offline;
pub use hub::{Hub, Kind, Place, Repository, set_patience};
pub use models::{Part, Progress, cached_model, model, on_progress};
pub use read::Body;
pub use tree::Entry;

/// Why something of the Hub cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HubError {
    /// The repository has no such file or folder.
    #[error("{0}")]
    NotFound(String),
    /// There is no such repository, or it is not shown to this user.
    #[error("{0}")]
    NoRepository(String),
    /// The repository has no such branch, tag or commit.
    #[error("{0}")]
    NoRevision(String),
    /// The file is not the one that was listed.
    #[error("{0}")]
    Changed(String),
    /// Repeating does not help.
    #[error("{0}")]
    Refused(String),
    /// The Hub does not answer now. Repeating may help.
    #[error("{0}")]
    Unavailable(String),
    /// The cache cannot be written.
    #[error("cannot write {}: {message}", path.display())]
    Disk { path: PathBuf, kind: io::ErrorKind, message: String },
}

impl HubError {
    fn writing(path: &std::path::Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Disk { path: path.to_path_buf(), kind: error.kind(), message: error.to_string() }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, HubError>;
