//! ScheduleState that survives a restart of the scheduler: up to when the times of each job are handled. Its lock keeps out
//! other schedulers of the same jobs.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// When each job last started. For a job that never started: when it was first seen. For a run to retry: the time that
/// was remembered before that run.
#[derive(Debug)]
pub(super) struct ScheduleState {
    path: PathBuf,
    jobs: BTreeMap<String, DateTime<Utc>>,
    // The system releases the lock when the process ends, even by a crash.
    _lock: File,
}

impl ScheduleState {
    /// Opens the state that `folder` holds for a jobs file, and locks it against other schedulers of the same jobs file.
    pub(super) fn open(folder: &Path, jobs_file: &Path) -> Result<Self, Failure> {
        let canonical = jobs_file.canonicalize().map_err(|error| failed("find", jobs_file, &error))?;
        let hash = Sha256::digest(canonical.as_os_str().as_encoded_bytes());
        std::fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))?;
        let path = folder.join(format!("{hash:x}.json"));
        let lock_path = path.with_extension("lock");
        let lock = File::create(&lock_path).map_err(|error| failed("create", &lock_path, &error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::OtherRun(format!(
                "another asap schedule runs the jobs of {}: stop it first, or let it run",
                jobs_file.display()
            )),
            TryLockError::Error(error) => failed("lock", &lock_path, &error),
        })?;
        let jobs = match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| {
                Failure::Failed(format!(
                    "{} is invalid: {error}; it should contain the time at which each job last started. Delete the file \
                     to start; missed runs are then not made up for",
                    path.display()
                ))
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(failed("read", &path, &error)),
        };
        Ok(Self { path, jobs, _lock: lock })
    }

    pub(super) fn of(&self, job: &str) -> Option<DateTime<Utc>> {
        self.jobs.get(job).copied()
    }

    pub(super) fn keep(&mut self, jobs: BTreeMap<String, DateTime<Utc>>) -> Result<(), Failure> {
        self.jobs = jobs;
        self.write()
    }

    pub(super) fn remember(&mut self, job: &str, time: DateTime<Utc>) -> Result<(), Failure> {
        self.jobs.insert(job.to_string(), time);
        self.write()
    }

    /// Replaces the file atomically: readers find the old or the new one, even after a crash.
    fn write(&self) -> Result<(), Failure> {
        let text = serde_json::to_string(&self.jobs)?;
        let new = self.path.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)
        };
        write().map_err(|error| failed("write", &self.path, &error))
    }
}

/// The user's folder for this state: `asap/schedule` in `$XDG_STATE_HOME`, else in `~/.local/state`.
pub(super) fn folder() -> Result<PathBuf, Failure> {
    let states = Xdg::new().ok().and_then(|user| Some(user.state_dir()?.join("asap/schedule")));
    states.ok_or_else(|| Failure::Usage("there is no folder for the state of the scheduler: set HOME".to_string()))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::by(error, format!("cannot {what} {}: {error}", path.display()))
}
