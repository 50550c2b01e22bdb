//! Runs each case of a language-model bench in its own process, to measure its peak memory and set its number of
//! threads.

use std::process::Command;

#[path = "memory.rs"]
mod memory;

pub(crate) use memory::peak;

/// The variable that names the case to a child process.
const CASE: &str = "ASAP_BENCH_CASE";

/// The shape of Qwen2.5-0.5B.
pub(crate) const HALF_A_BILLION: &str = include_str!("half_a_billion.json");

/// Returns the case of this process, or None in the process that starts them.
pub(crate) fn case() -> Option<String> {
    std::env::var(CASE).ok()
}

/// Runs a case on `threads` cores if the command line names it. Without names on the command line, runs it if it
/// `is_usual`.
pub(crate) fn run(name: &str, threads: usize, is_usual: bool) {
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if if named.is_empty() { is_usual } else { named.iter().any(|asked| asked == name) } {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.env(CASE, name).env("RAYON_NUM_THREADS", threads.to_string());
        assert!(process.status().unwrap().success(), "{name}");
    }
}
