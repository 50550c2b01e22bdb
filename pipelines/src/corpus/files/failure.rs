//! Files that cannot be read: asap names them and reads the others.

use std::fmt;

use datafusion::common::DataFusionError;
use serde::{Deserialize, Serialize};

use crate::location::{Unavailable, causes, is_unavailable};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFailure {
    /// Its path below the location, as in `source`.
    pub file: String,
    pub error: String,
    /// Caused by arguments or settings.
    #[serde(skip)]
    pub is_usage: bool,
    /// Whether the store was unavailable, so that a later try may succeed.
    #[serde(skip)]
    pub is_unavailable: bool,
}

impl FileFailure {
    pub fn new(file: &str, found: &DataFusionError) -> Self {
        let error = match found {
            DataFusionError::ObjectStore(error) => of_store(error),
            DataFusionError::Execution(message) | DataFusionError::Configuration(message) => message.clone(),
            other => other.strip_backtrace(),
        };
        Self {
            file: file.to_string(),
            error,
            is_usage: matches!(found, DataFusionError::Configuration(_)),
            is_unavailable: is_unavailable(found) && !is_of_another_content(found),
        }
    }

    /// Returns the file failure that caused an error.
    pub fn of(error: &DataFusionError) -> Option<&Self> {
        causes(error).find_map(|cause| cause.downcast_ref())
    }
}

/// Whether a file was replaced after it was listed, which is a failure of this file alone.
fn is_of_another_content(error: &DataFusionError) -> bool {
    matches!(error, DataFusionError::ObjectStore(error) if matches!(**error, object_store::Error::Precondition { .. }))
}

fn of_store(error: &object_store::Error) -> String {
    match error {
        object_store::Error::Precondition { .. } => {
            "it was replaced after it was listed; the next run reads the new content".to_string()
        }
        object_store::Error::NotFound { .. } => "it was deleted after it was listed".to_string(),
        other => other.to_string(),
    }
}

impl fmt::Display for FileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Most messages name the file by its full path.
        if self.error.contains(&self.file) {
            f.write_str(&self.error)
        } else {
            write!(f, "{}: {}", self.file, self.error)
        }
    }
}

impl std::error::Error for FileFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.is_unavailable.then_some(&Unavailable)
    }
}

impl From<FileFailure> for DataFusionError {
    fn from(failure: FileFailure) -> Self {
        match failure.is_usage {
            true => DataFusionError::Configuration(failure.to_string()),
            false => DataFusionError::Execution(failure.to_string()),
        }
    }
}
