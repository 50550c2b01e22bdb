//! A log for readers that follow a table version by version.

use crate::delta::State;
use crate::delta::actions::{Line, LiveFile, Removed, Transaction};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// The files of this version, and the changes after it.
    Snapshot(u64),
    Version(u64),
}

impl Since {
    pub(crate) fn version(self) -> u64 {
        match self {
            Self::Snapshot(version) | Self::Version(version) => version,
        }
    }
}

/// The current state of a log, and its changes since a version.
#[derive(Debug, Default)]
pub struct Followed {
    /// The newest state.
    pub state: State,
    /// The state at the requested version of [`Since::Snapshot`].
    pub snapshot: State,
    /// The versions after the requested one, ascending.
    pub later: Vec<Version>,
}

#[derive(Debug, Clone)]
pub struct Version {
    pub version: u64,
    pub added: Vec<LiveFile>,
    pub removed: Vec<Removed>,
    pub transactions: Vec<Transaction>,
}

impl Followed {
    /// Keeps the state as the snapshot if it is at the requested version.
    pub(crate) fn keep_snapshot(&mut self, since: Option<Since>) {
        if since == Some(Since::Snapshot(self.state.version)) {
            self.snapshot = self.state.clone();
        }
    }
}

impl Version {
    pub(crate) fn of(version: u64, lines: &[Line]) -> Self {
        Self {
            version,
            added: lines.iter().filter_map(|line| line.add.clone()).collect(),
            removed: lines.iter().filter_map(|line| line.remove.clone()).collect(),
            transactions: lines.iter().filter_map(|line| line.txn.clone()).collect(),
        }
    }
}
