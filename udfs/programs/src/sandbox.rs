use std::collections::{BTreeSet, HashMap};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tempfile::TempDir;

use crate::child::{End, Judging, MALFORMED, MOST_THREADS, Run, START, whole};
use crate::entry::Entry;
use crate::error::SandboxError;
use crate::judge::{Judge, LONGEST, Parts, line};
use crate::problem::{Problem, Tests};
use crate::python::{Python, real};
use crate::value::Value;
use crate::{Reason, Verdict, extract};

/// What a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Address space.
    pub memory_bytes: u64,
    /// What a program may print for a test.
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
    /// The tests that were taken apart, by what they were.
    parts: Arc<Mutex<HashMap<String, Arc<Parts>>>>,
}

/// For what asap itself runs: the sandbox's check, imports, a reference program.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit of a program, as a multiple of the reference program's time.
const TIMES_REFERENCE: f64 = 4.0;

/// All that the process of a program gets.
#[derive(Serialize)]
struct ToRun<'a> {
    kind: &'static str,
    before: &'a str,
    program: &'a str,
    entry_point: Option<&'a str>,
    inputs: Vec<&'a str>,
}

/// What a process without a generated program gets.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Question<'a> {
    Modules { sources: BTreeSet<&'a str> },
    Probe { outside: PathBuf, private: Vec<PathBuf> },
    Apart { before: &'a str, test: &'a str },
    Inputs { row: &'a str },
    Outputs { outputs: Vec<&'a str> },
    Judged { before: &'a str, test: &'a str, values: Option<Vec<String>> },
}

impl Sandbox {
    /// Checks the Python, that a program runs, and that the sandbox refuses what it has to. Programs cannot read the working
    /// folder: see [`Self::hiding`].
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
        let sandbox =
            Self { command, python: found.executable, readable: found.readable, limits, parts: Arc::default() };
        // Where the working folder is unknown, no path is below it.
        sandbox.hiding(&env::current_dir().into_iter().collect::<Vec<_>>())
    }

    /// Checks that programs cannot read these files and folders, whether they exist already or not.
    ///
    /// # Errors
    /// If the Python needs a folder that holds one of them, or if the sandbox leaves one open.
    pub fn hiding(self, paths: &[PathBuf]) -> Result<Self, SandboxError> {
        let private: Vec<PathBuf> = paths.iter().map(|path| real(path)).collect();
        for path in &private {
            if let Some(folder) = self.readable.iter().find(|folder| path.starts_with(folder)) {
                let (python, folder, path) = (self.python.clone(), folder.clone(), path.clone());
                return Err(SandboxError::Exposed { python, folder, path });
            }
        }
        let other = TempDir::new().map_err(SandboxError::io("create a temporary folder"))?;
        match self.answer(&Question::Probe { outside: other.path().join("file"), private })? {
            Ok(works) if works.is_empty() => Ok(self),
            Ok(works) => Err(SandboxError::Open(works)),
            Err(end) => Err(SandboxError::Report(end)),
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
        match self.answer(&Question::Modules { sources })? {
            Ok(missing) if missing.is_empty() => Ok(()),
            Ok(missing) => Err(SandboxError::Missing {
                python: self.python.display().to_string(),
                modules: missing.split(' ').map(str::to_string).collect(),
            }),
            Err(end) => Err(SandboxError::Report(end)),
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
            Ok(program) => Ok(self.run(problem, &program, Duration::from_secs_f64(problem.seconds))?.0),
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
            let (verdict, results) = self.run(problem, &reference, PATIENCE)?;
            if !verdict.passed() {
                return Ok(Some(verdict));
            }
            if let Tests::Calls { expected, .. } = &mut problem.tests {
                *expected = Some(results.join("\n"));
            }
        }
        let verdict = self.run(problem, &reference, PATIENCE)?.0;
        problem.seconds = problem.seconds.max(TIMES_REFERENCE * verdict.seconds);
        Ok(Some(verdict))
    }

    /// Runs a program with the tests. Its process gets nothing to compare with. Returns also the results that are not
    /// compared.
    fn run(&self, problem: &Problem, program: &str, limit: Duration) -> Result<(Verdict, Vec<String>), SandboxError> {
        let parts = self.parts(problem)?;
        let mut judge = Judge::new(problem, &parts);
        let unreadable = parts.unreadable.as_deref().or(judge.inputs.is_empty().then_some("there are none"));
        if let Some(why) = unreadable {
            let detail = format!("the tests of this problem cannot be read: {why}");
            return Ok((Verdict { reason: Reason::RuntimeError, detail, seconds: 0.0 }, Vec::new()));
        }
        let (kind, each) = match problem.tests {
            Tests::Check { .. } => ("check", false),
            Tests::Calls { .. } => ("calls", false),
            Tests::Method { .. } => ("method", true),
            Tests::Stdin { .. } => ("stdin", true),
        };
        let (entry_point, inputs) = (problem.entry_point.as_deref(), judge.inputs.clone());
        let request = ToRun { kind, before: &problem.before, program, entry_point, inputs };
        let most = judge.most(self.limits.file_bytes);
        let ended = self.ask(&request, limit, each, most, &mut |found| judge.wrong(found))?;
        let mut verdict = verdict(ended, &judge);
        if let (true, Tests::Check { test }, false) = (verdict.passed(), &problem.tests, judge.open.is_empty()) {
            let values = judge.open.iter().map(|text| Value::of(text).map(|value| value.show(usize::MAX))).collect();
            match self.answer(&Question::Judged { before: &problem.before, test, values })? {
                Ok(line) if line.is_empty() => {}
                Ok(detail) | Err(detail) => (verdict.reason, verdict.detail) = (Reason::WrongAnswer, detail),
            }
        }
        Ok((verdict, judge.open))
    }

    /// Takes the tests apart, once.
    fn parts(&self, problem: &Problem) -> Result<Arc<Parts>, SandboxError> {
        let before = problem.before.as_str();
        let (key, question) = match &problem.tests {
            Tests::Check { test } => (format!("{before}\0{test}"), Question::Apart { before, test }),
            Tests::Calls { row, .. } => (row.clone(), Question::Inputs { row }),
            Tests::Method { tests } => {
                let outputs: Vec<_> = tests.iter().map(|test| test.output.as_str()).collect();
                (outputs.join("\0"), Question::Outputs { outputs })
            }
            Tests::Stdin { .. } => return Ok(Arc::default()),
        };
        let known = || self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parts) = known().get(&key) {
            return Ok(Arc::clone(parts));
        }
        let parts =
            self.answer(&question)?.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        let parts = Arc::new(parts.unwrap_or_else(|why| Parts { unreadable: Some(why), ..Parts::default() }));
        // A process that ran out of time may have it later.
        if parts.unreadable.is_none() {
            known().insert(key, Arc::clone(&parts));
        }
        Ok(parts)
    }

    /// Asks a process that runs no generated program. The inner error is how it ended without an answer.
    fn answer(&self, question: &Question<'_>) -> Result<Result<String, String>, SandboxError> {
        let mut answer = String::new();
        let (end, _) = self.ask(question, PATIENCE, false, vec![LONGEST as u64], &mut |found| {
            answer = whole(found)?.unwrap_or_default();
            Ok(None)
        })?;
        Ok(match end {
            End::Finished => Ok(answer),
            End::Reported(_, detail) => Err(detail),
            end => Err(format!("{end:?}")),
        })
    }

    fn ask(
        &self,
        request: &impl Serialize,
        limit: Duration,
        each: bool,
        most: Vec<u64>,
        wrong: &mut Judging<'_>,
    ) -> Result<(End, Duration), SandboxError> {
        let limits = if each { most.len() + 1 } else { 1 };
        let entry = Entry {
            memory_bytes: self.limits.memory_bytes,
            file_bytes: self.limits.file_bytes,
            seconds: START.as_secs() + (limit.as_secs() + 1) * limits as u64,
            python: self.python.clone(),
            readable: self.readable.clone(),
        };
        Run { command: &self.command, arguments: entry.arguments(), limit, each, most }.ask(request, wrong)
    }
}

fn verdict((end, time): (End, Duration), judge: &Judge<'_>) -> Verdict {
    let (reason, detail) = match end {
        End::Finished => (Reason::Ok, String::new()),
        End::Wrong(detail) => (Reason::WrongAnswer, detail),
        End::Reported(kind, detail) => match Reason::named(&kind) {
            Some(Reason::WrongAnswer) => (Reason::WrongAnswer, judge.detail(&detail)),
            // No harness reports this, so a program has.
            None | Some(Reason::Ok) => (Reason::WrongAnswer, judge.detail(MALFORMED)),
            Some(reason) => (reason, line(&detail)),
        },
        End::TooManyThreads => (Reason::RuntimeError, format!("ended because it had more than {MOST_THREADS} threads")),
        End::Timeout => (Reason::Timeout, "ended at its time limit".to_string()),
        End::Killed => (Reason::Memory, "killed by the system, which kills for memory".to_string()),
        End::Signal(signal) => (Reason::RuntimeError, format!("ended by signal {signal}")),
        End::Left(code) => (Reason::EarlyExit, format!("left with code {code} before its tests ended")),
    };
    Verdict { reason, detail, seconds: time.as_secs_f64() }
}
