use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::error::SandboxError;

/// What the child gets on its command line.
pub(crate) struct Entry {
    pub(crate) memory_bytes: u64,
    /// What the program may print.
    pub(crate) file_bytes: u64,
    /// Processor seconds. The parent ends the child earlier; this limit holds if the parent is gone.
    pub(crate) seconds: u64,
    pub(crate) python: PathBuf,
    /// The folders and files that the program may read.
    pub(crate) readable: Vec<PathBuf>,
}

impl Entry {
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let numbers = [self.memory_bytes, self.file_bytes, self.seconds].map(|number| number.to_string().into());
        let paths = [&self.python].into_iter().chain(&self.readable);
        numbers.into_iter().chain(paths.map(|path| path.clone().into_os_string())).collect()
    }

    fn of(arguments: &[OsString]) -> Option<Self> {
        let number = |text: &OsStr| text.to_str()?.parse().ok();
        let [memory, file, seconds, python, readable @ ..] = arguments else { return None };
        Some(Self {
            memory_bytes: number(memory)?,
            file_bytes: number(file)?,
            seconds: number(seconds)?,
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
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;

    let limits = [entry.memory_bytes, entry.file_bytes, entry.seconds];
    let inherited = match inherited() {
        Ok(inherited) => inherited,
        Err(error) => return SandboxError::Io { what: "list its open files in /proc/self/fd", source: error },
    };
    let files = match file_in_memory().and_then(|input| Ok([input, file_in_memory()?])) {
        Ok(files) => files,
        Err(error) => return SandboxError::Io { what: "make a file in memory", source: error.into() },
    };
    let mut python = std::process::Command::new(&entry.python);
    // Sets of texts have the same order in each run. The harness empties the environment.
    python.args(["-s", "-B", "-X", "utf8", "-c", include_str!("harness.py")]).env_clear().env("PYTHONHASHSEED", "0");
    python.arg(inherited).args(files.each_ref().map(|file| file.as_raw_fd().to_string())).current_dir("/");
    match crate::restrict::restrict(&entry.readable, limits) {
        Ok(()) => SandboxError::Io { what: "start Python in the sandbox", source: python.exec() },
        Err(error) => error,
    }
}

/// The descriptors that this process inherited, but for the standard streams, for the harness to close: what started asap may
/// have left files open.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn inherited() -> std::io::Result<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse().ok()).filter(|fd: &u32| *fd > 2));
    }
    Ok(found.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

/// A file for what a program reads or prints. It is on no disk, and stays open in what this process executes.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn file_in_memory() -> rustix::io::Result<std::os::fd::OwnedFd> {
    use rustix::fs::{MemfdFlags, memfd_create};

    // Kernels before 6.3 do not know the flag.
    memfd_create("stream", MemfdFlags::NOEXEC_SEAL).or_else(|_| memfd_create("stream", MemfdFlags::empty()))
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn replace(_: &Entry) -> SandboxError {
    SandboxError::Unsupported
}
