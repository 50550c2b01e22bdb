//! Why a command failed, and its exit code.

use std::error::Error;

use asap_llm::LlmError;
use asap_lm::LmError;
use asap_pipelines::corpus::CORPUS;
use asap_pipelines::delta::OutcomeUnknown;
use asap_pipelines::location::advice;
use asap_pipelines::run::RunError;
use asap_udfs::llm::failed;
use datafusion::error::DataFusionError;

use crate::output::{error_line, is_broken_pipe};

#[derive(Debug)]
pub enum Failure {
    /// Wrong arguments or settings: exit code 2.
    Usage(String),
    /// A query, or a corpus that it reads, is refused: exit code 1.
    Refused(String),
    /// The work failed: exit code 1.
    Failed(String),
    /// A run spent its limit on calls or on their cost: exit code 1.
    BudgetSpent { message: String, calls: u64 },
    /// Too many rows were rejected; the rest is done: exit code 3.
    TooManyRejects(String),
    /// A file failed; the rest is done: exit code 3.
    FileFailed(String),
    /// Another process did the work or is doing it: exit code 4.
    OtherRun(String),
    /// The same command may succeed later: exit code 75.
    TryLater(String),
    /// Another process changed the table meanwhile: exit code 75.
    Conflict(String),
    /// A run was stopped before it read a row: exit code 75.
    Stopped(String),
    /// The reader of our output closed it: exit code 0.
    ReaderGone,
}

impl Failure {
    /// What failed; nothing if the reader of the output is gone.
    pub fn message(&self) -> &str {
        match self {
            Self::Usage(message)
            | Self::Refused(message)
            | Self::Failed(message)
            | Self::BudgetSpent { message, .. }
            | Self::TooManyRejects(message)
            | Self::FileFailed(message)
            | Self::OtherRun(message)
            | Self::TryLater(message)
            | Self::Conflict(message)
            | Self::Stopped(message) => message,
            Self::ReaderGone => "",
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        if is_broken_pipe(&error) {
            return Failure::ReaderGone;
        }
        let message = error_line(&error);
        if let Some(advice) = advice(&error) {
            return Failure::TryLater(format!("{message}. {advice}"));
        }
        match error.find_root() {
            DataFusionError::Configuration(_) => Failure::Usage(message),
            DataFusionError::External(cause) if cause.is::<OutcomeUnknown>() => Failure::Conflict(message),
            _ if is_unreachable(&error) => Failure::TryLater(message),
            DataFusionError::Plan(_) | DataFusionError::SQL(..) | DataFusionError::SchemaError(..) => {
                Failure::Refused(message)
            }
            _ if is_of_corpus(&error) => Failure::Refused(message),
            DataFusionError::External(cause) => match cause.downcast_ref() {
                Some(RunError::BudgetSpent { usage, .. }) => Failure::BudgetSpent { message, calls: usage.calls },
                Some(RunError::Interrupted) => Failure::Stopped(message),
                Some(RunError::OtherSnapshot { .. } | RunError::OtherCommit { .. }) => Failure::Conflict(message),
                Some(RunError::Superseded { .. } | RunError::OtherTable { .. }) => Failure::OtherRun(message),
                Some(
                    RunError::TooManyRejects { .. } | RunError::AllRejected { .. } | RunError::NothingToExport { .. },
                ) => Failure::TooManyRejects(message),
                None => Failure::Failed(message),
            },
            _ => Failure::Failed(message),
        }
    }
}

/// Whether a corpus cannot be opened.
fn is_of_corpus(error: &DataFusionError) -> bool {
    matches!(error, DataFusionError::Context(what, _) if what == CORPUS)
}

/// Whether the endpoint of the language model or the backend of the scoring model does not answer now.
pub fn is_unreachable(error: &DataFusionError) -> bool {
    let DataFusionError::External(cause) = error.find_root() else { return false };
    matches!(cause.downcast_ref(), Some(LlmError::Unreachable(_)))
        || cause.downcast_ref().is_some_and(LmError::is_unavailable)
}

impl From<LlmError> for Failure {
    fn from(error: LlmError) -> Self {
        failed(error).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Self::by(&error, error.to_string()),
        }
    }
}

impl From<LmError> for Failure {
    fn from(error: LmError) -> Self {
        match &error {
            error if error.is_unavailable() => Failure::TryLater(error.to_string()),
            LmError::NoModel(said) => Failure::Usage(said.clone()),
            error => Self::by(error, error.to_string()),
        }
    }
}

impl Failure {
    /// A failure by the cause of `message`, which decides whether repeating helps.
    pub fn by(error: &(dyn Error + 'static), message: String) -> Self {
        match advice(error) {
            Some(advice) => Failure::TryLater(format!("{message}. {advice}")),
            None => Failure::Failed(message),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}
