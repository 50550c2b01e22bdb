//! Programs in the sandbox: by the rows of the benches, by cases of all forms, and as cheats.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::thread;

use asap_programs::{Limits, Problem, Sandbox, humaneval_plus, leetcode, livecodebench};
use serde::de::DeserializeOwned;

mod benches;
mod cases;
mod cheats;
mod limits;
mod readable;

const CHILD: &str = env!("CARGO_BIN_EXE_sandboxed-python");

fn sandbox() -> Sandbox {
    let limits = Limits { memory_bytes: 1 << 30, ..Limits::default() };
    Sandbox::new("python3", vec![CHILD.into()], limits).unwrap()
}

fn read<T: DeserializeOwned>(lines: &str) -> Vec<T> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The problem of a row of a bench.
fn problem(bench: &str, row: &str) -> Result<Problem, String> {
    match bench {
        "humaneval_plus" => humaneval_plus(row),
        "leetcode" => leetcode(row),
        "livecodebench" => livecodebench(row),
        other => panic!("no bench {other}"),
    }
}

/// Judges all cases on four threads. Panics if one of them does.
fn judge_all<T: Sync>(cases: &[T], judge: impl Fn(&T) + Sync) {
    let rest = Mutex::new(cases.iter());
    let judge_rest = || {
        loop {
            let Some(case) = rest.lock().unwrap().next() else { return };
            judge(case);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(judge_rest))));
}
