use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::error::SandboxError;

/// What the child gets on its command line.
pub(crate) struct Entry {
    pub(crate) memory_bytes: u64,
    /// The size of the largest file.
    pub(crate) file_bytes: u64,
    /// Processor seconds. The parent ends the child earlier; this limit holds if the parent is gone.
    pub(crate) seconds: u64,
    /// The only folder that the program may write to.
    pub(crate) folder: PathBuf,
    pub(crate) python: PathBuf,
    /// The folders of this Python, which the program may read.
    pub(crate) readable: Vec<PathBuf>,
}

impl Entry {
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let numbers = [self.memory_bytes, self.file_bytes, self.seconds].map(|number| number.to_string().into());
        let paths = [&self.folder, &self.python].into_iter().chain(&self.readable);
        numbers.into_iter().chain(paths.map(|path| path.clone().into_os_string())).collect()
    }

    fn of(arguments: &[OsString]) -> Option<Self> {
        let number = |text: &OsStr| text.to_str()?.parse().ok();
        let [memory, file, seconds, folder, python, readable @ ..] = arguments else { return None };
        Some(Self {
            memory_bytes: number(memory)?,
            file_bytes: number(file)?,
            seconds: number(seconds)?,
            folder: folder.into(),
            python: python.into(),
            readable: readable.iter().map(PathBuf::from).collect(),
        })
    }
}

/// Restricts this process for good and replaces it by Python with the harness. Returns only on failure.
///
/// The hidden command calls it before it starts a thread: Landlock and seccomp restrict the calling thread. `arguments`
/// are those that [`Sandbox`](crate::Sandbox) puts after the arguments of the hidden command.
pub fn enter(arguments: &[OsString]) -> SandboxError {
    match Entry::of(arguments) {
        Some(entry) => replace(&entry),
        None => SandboxError::Arguments(arguments.len()),
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn replace(entry: &Entry) -> SandboxError {
    use std::os::unix::process::CommandExt;

    let mut python = std::process::Command::new(&entry.python);
    // Sets of texts have the same order in each run. The harness empties the environment.
    python.args(["-s", "-B", "-X", "utf8", "-c", include_str!("harness.py")]).env_clear().env("PYTHONHASHSEED", "0");
    python.current_dir(&entry.folder);
    let limits = [entry.memory_bytes, entry.file_bytes, entry.seconds];
    match crate::restrict::restrict(&entry.folder, &entry.readable, limits) {
        Ok(()) => SandboxError::Io { what: "start Python in the sandbox", source: python.exec() },
        Err(error) => error,
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn replace(_: &Entry) -> SandboxError {
    SandboxError::Unsupported
}
