use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::child::{End, Run};
use crate::entry::Entry;
use crate::error::SandboxError;
use crate::problem::{Problem, Tests};
use crate::{Reason, Verdict, extract};

/// What a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Address space.
    pub memory_bytes: u64,
    /// What a program may write, to one file and in all.
    pub file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes: 4 << 30, file_bytes: 16 << 20 }
    }
}

/// Runs programs, each in a child process of its own. Threads may share it.
#[derive(Debug, Clone)]
pub struct Sandbox {
    command: Vec<OsString>,
    python: PathBuf,
    readable: Vec<PathBuf>,
    limits: Limits,
}

/// What a Python prints of itself.
#[derive(Deserialize)]
struct Python {
    version: [u32; 3],
    executable: PathBuf,
    folders: Vec<PathBuf>,
}

const QUERY: &str = "import json, os, sys
folders = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
folders.append(os.path.dirname(os.path.realpath(sys.executable)))
print(json.dumps({'version': sys.version_info[:3], 'executable': sys.executable, 'folders': folders}))";
const OLDEST: [u32; 3] = [3, 9, 0];
/// For what asap itself runs: the sandbox's check, imports, a reference program.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit of a program, as a multiple of the reference program's time.
const TIMES_REFERENCE: f64 = 4.0;

#[derive(Serialize)]
struct ToRun<'a> {
    before: &'a str,
    program: &'a str,
    entry_point: Option<&'a str>,
    #[serde(flatten)]
    tests: &'a Tests,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Question<'a> {
    Modules { sources: BTreeSet<&'a str> },
    Probe { outside: PathBuf },
}

impl Sandbox {
    /// Checks the Python, that a program runs, and that the sandbox refuses what it has to.
    ///
    /// `python` is a path or a name on `PATH`. `command` starts the hidden command that calls [`enter`](crate::enter):
    /// a program and its first arguments.
    ///
    /// # Errors
    /// If something is missing. The error names it and says what to do.
    pub fn new(python: &str, command: Vec<OsString>, limits: Limits) -> Result<Self, SandboxError> {
        if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
            return Err(SandboxError::Unsupported);
        }
        let found = Python::find(python)?;
        if found.version < OLDEST {
            let [major, minor, patch] = found.version;
            return Err(SandboxError::OldPython {
                python: python.to_string(),
                found: format!("{major}.{minor}.{patch}"),
            });
        }
        let readable: BTreeSet<_> = found.folders.into_iter().collect();
        let sandbox = Self { command, python: found.executable, readable: readable.into_iter().collect(), limits };
        let other = TempDir::new().map_err(SandboxError::io("create a temporary folder"))?;
        match sandbox.ask(&Question::Probe { outside: other.path().join("file") }, PATIENCE, 1)?.0 {
            End::Reported(kind, works) if kind == "works" && works.is_empty() => Ok(sandbox),
            End::Reported(kind, works) if kind == "works" => Err(SandboxError::Open(works)),
            end => Err(SandboxError::Report(format!("{end:?}"))),
        }
    }

    /// Checks that the modules that the tests and reference programs import can be imported in the sandbox.
    ///
    /// # Errors
    /// If a module is missing. The error names all missing modules.
    pub fn check_imports<'a>(&self, problems: impl IntoIterator<Item = &'a Problem>) -> Result<(), SandboxError> {
        let mut sources = BTreeSet::new();
        for problem in problems {
            sources.insert(problem.before.as_str());
            sources.extend(problem.reference.as_deref());
            if let Tests::Check { test } = &problem.tests {
                sources.insert(test);
            }
        }
        sources.retain(|source| source.contains("import"));
        match self.ask(&Question::Modules { sources }, PATIENCE, 1)?.0 {
            End::Reported(kind, missing) if kind == "missing" && missing.is_empty() => Ok(()),
            End::Reported(kind, missing) if kind == "missing" => Err(SandboxError::Missing {
                python: self.python.display().to_string(),
                modules: missing.split(' ').map(str::to_string).collect(),
            }),
            end => Err(SandboxError::Report(format!("{end:?}"))),
        }
    }

    /// Runs the program of a response with the tests of its problem.
    ///
    /// # Errors
    /// If the sandbox does not work, or if a problem of HumanEval+ has not passed [`Self::check_reference`].
    pub fn judge(&self, problem: &Problem, response: &str) -> Result<Verdict, SandboxError> {
        if matches!(problem.tests, Tests::Calls { expected: None, .. }) {
            return Err(SandboxError::NothingExpected(problem.id.clone()));
        }
        match extract::program(problem, response) {
            Ok(program) => verdict(self.run(problem, &program, Duration::from_secs_f64(problem.seconds))?),
            Err(reason) => Ok(Verdict { reason, detail: String::new(), seconds: 0.0 }),
        }
    }

    /// Runs the bench's own program with the tests. Returns its verdict, or None if the bench has none. Stores what
    /// follows from it: what the calls of HumanEval+ return, and the time limit.
    ///
    /// # Errors
    /// If the sandbox does not work.
    pub fn check_reference(&self, problem: &mut Problem) -> Result<Option<Verdict>, SandboxError> {
        let Some(reference) = problem.reference.clone() else { return Ok(None) };
        if let Tests::Calls { expected, .. } = &mut problem.tests {
            *expected = None;
            match self.run(problem, &reference, PATIENCE)? {
                (End::Reported(kind, values), _) if kind == "outputs" => problem.tests.expect(values),
                ended => return verdict(ended).map(Some),
            }
        }
        let verdict = verdict(self.run(problem, &reference, PATIENCE)?)?;
        problem.seconds = problem.seconds.max(TIMES_REFERENCE * verdict.seconds);
        Ok(Some(verdict))
    }

    fn run(&self, problem: &Problem, program: &str, limit: Duration) -> Result<(End, Duration), SandboxError> {
        let Problem { before, tests, .. } = problem;
        let entry_point = problem.entry_point.as_deref();
        self.ask(&ToRun { before, program, entry_point, tests }, limit, tests.limits())
    }

    /// Runs a child with `limits` time limits that follow each other.
    fn ask(&self, request: &impl Serialize, limit: Duration, limits: usize) -> Result<(End, Duration), SandboxError> {
        let folder = TempDir::new().map_err(SandboxError::io("create a temporary folder"))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let entry = Entry {
            memory_bytes: self.limits.memory_bytes,
            file_bytes: self.limits.file_bytes,
            seconds: (limit.as_secs() + 1) * (limits * cores) as u64,
            folder: folder.path().to_path_buf(),
            python: self.python.clone(),
            readable: self.readable.clone(),
        };
        let (command, arguments) = (&self.command, entry.arguments());
        let run = Run { command, arguments, folder: folder.path(), folder_bytes: self.limits.file_bytes, limit };
        let ended = run.ask(request)?;
        folder.close().map_err(SandboxError::io("delete the folder of a program"))?;
        Ok(ended)
    }
}

fn verdict((end, time): (End, Duration)) -> Result<Verdict, SandboxError> {
    let (reason, detail) = match end {
        End::Reported(kind, detail) => match Reason::named(&kind) {
            Some(reason) => (reason, detail),
            None => return Err(SandboxError::Report(format!("{kind} {detail}"))),
        },
        End::Timeout => (Reason::Timeout, "ended at its time limit".to_string()),
        End::TooMuchWritten => (Reason::RuntimeError, "ended because it wrote too much".to_string()),
        End::Killed => (Reason::Memory, "killed by the system, which kills for memory".to_string()),
        End::Signal(signal) => (Reason::RuntimeError, format!("ended by signal {signal}")),
        End::Left(code) => (Reason::EarlyExit, format!("left with code {code} before its tests ended")),
    };
    Ok(Verdict { reason, detail, seconds: time.as_secs_f64() })
}

impl Python {
    /// Runs a Python outside of the sandbox to ask it for its folders: none of its code is from elsewhere.
    fn find(python: &str) -> Result<Self, SandboxError> {
        let failed = |problem: String| SandboxError::NoPython { python: python.to_string(), problem };
        let output =
            Command::new(python).args(["-I", "-c", QUERY]).output().map_err(|error| failed(error.to_string()))?;
        let complaint = || String::from_utf8_lossy(&output.stderr).trim().to_string();
        serde_json::from_slice(&output.stdout)
            .map_err(|_| failed(format!("it ended with {}: {}", output.status, complaint())))
    }
}
