use std::io;
use std::path::PathBuf;

/// Why no program can be run. Nothing has been judged.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(
        "programs run in a Linux sandbox (Landlock and seccomp, on x86-64 or aarch64), and this system has none: \
         evaluate programs on Linux"
    )]
    Unsupported,
    #[error(
        "cannot run the Python {python}: {problem}; name a Python of version 3.9 or later, by path or by a name on PATH"
    )]
    NoPython { python: String, problem: String },
    #[error("the Python {python} has version {found}, and 3.9 or later is needed: name another one")]
    OldPython { python: String, found: String },
    #[error(
        "the Python {python} lacks modules that the tests or their reference programs import: {}; install them with \
         {python} -m pip install {}", modules.join(", "), modules.join(" ")
    )]
    Missing { python: String, modules: Vec<String> },
    #[error(
        "this kernel has no Landlock, or it is switched off: use Linux 5.13 or later with landlock in its list lsm=, and a \
         container runtime that allows it"
    )]
    NoLandlock,
    #[error("cannot restrict the process of a program ({what}): {problem}")]
    Restrict { what: &'static str, problem: String },
    #[error("the sandbox does not refuse {0}, so no program is run in it: use another kernel or container runtime")]
    Open(String),
    #[error(
        "programs would read {}: it lies in {}, which the Python {} needs; move it out of that folder, or \
         name another Python", path.display(), folder.display(), python.display()
    )]
    Exposed { python: PathBuf, folder: PathBuf, path: PathBuf },
    #[error("the sandbox started no Python: {0}")]
    NotStarted(String),
    #[error("cannot {what}: {source}")]
    Io { what: &'static str, source: io::Error },
    #[error("the hidden command that starts a program got {0} arguments: call it only from asap")]
    Arguments(usize),
    #[error("it is not known what the calls of the problem {0} return: check its reference program first")]
    NothingExpected(String),
    #[error("the sandbox reported what it was not asked for: {0}")]
    Report(String),
}

impl SandboxError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
