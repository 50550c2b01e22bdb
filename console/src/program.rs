//! The command that starts this program again, for parts, jobs and sandboxes in processes of their own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::Command;
use std::sync::OnceLock;

static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the command: a program and its first arguments. Without this, it is the program of this process.
pub fn set_command(command: Vec<OsString>) {
    // The first call wins.
    drop(PROGRAM.set(command));
}

pub fn command() -> io::Result<Vec<OsString>> {
    match PROGRAM.get() {
        Some(command) => Ok(command.clone()),
        None => Ok(vec![std::env::current_exe()?.into()]),
    }
}

/// The command, ready to spawn.
pub fn process() -> io::Result<Command> {
    let command = command()?;
    let mut words = command.iter();
    let mut process = Command::new(words.next().map_or(OsStr::new("asap"), OsString::as_os_str));
    process.args(words);
    Ok(process)
}
