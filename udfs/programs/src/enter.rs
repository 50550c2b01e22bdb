//! What the child does first.

use std::ffi::OsString;

use crate::entry::Entry;
use crate::error::SandboxError;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::restrict::restrict;

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
    match restrict(entry) {
        Ok(()) => SandboxError::Io { what: "start Python in the sandbox", source: python.exec() },
        Err(error) => error,
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn replace(_: &Entry) -> SandboxError {
    SandboxError::Unsupported
}
