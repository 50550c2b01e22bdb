//! A log as one who reads its table version by version finds it.

use crate::delta::State;
use crate::delta::actions::{Line, LiveFile, Removed, Transaction};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// From the files of a version on: they, and what changed after it.
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

/// What a log says now, and what it said of each version since one.
#[derive(Debug, Default)]
pub struct Followed {
    /// What it says at its newest version.
    pub state: State,
    /// What it said at the version that was asked for with its files.
    pub snapshot: State,
    /// The versions after the one that was asked for, ascending.
    pub later: Vec<Version>,
}

/// The files that a version added to a table and removed from it.
#[derive(Debug, Clone)]
pub struct Version {
    /// The version.
    pub version: u64,
    /// Files that it added.
    pub added: Vec<LiveFile>,
    /// Files that it removed.
    pub removed: Vec<Removed>,
    /// Its transactions.
    pub transactions: Vec<Transaction>,
}

impl Followed {
    /// Keeps what was said at the version that is asked for, when the state is there.
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
