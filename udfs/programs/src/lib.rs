//! Runs generated Python programs with the inputs of their tests in a sandbox, and judges what they return.
//!
//! A program runs in a child process that is this program itself, started with a hidden command. The child gives up its
//! rights ([`enter`]) and then executes the user's Python with a short harness. It needs no root and no container.
//!
//! The process of a program gets no expected value, no reference program and no test. Another process, which runs no
//! generated program, takes the tests apart: what a program gets, and what its results are compared with in asap. So a
//! program is right only if it returns what is expected.
//!
//! | module | holds |
//! |---|---|
//! | `rows`, `problem`, `pickle` | rows of the published benches to problems |
//! | `extract` | finding the program in a response |
//! | `sandbox`, `python`, `child` | checking the sandbox, what programs may read, running a child, its verdict |
//! | `clock` | the time that a child uses |
//! | `judge`, `agree`, `value`, `lines` | comparing results by the rules of the benches |
//! | `entry`, `restrict`, `syscalls` | what the child may do: limits, Landlock, seccomp |
//! | `harness.py` | running a program, and taking tests apart, in Python |

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;

mod agree;
mod child;
mod clock;
mod entry;
mod error;
mod extract;
mod judge;
mod lines;
mod pickle;
mod problem;
mod python;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod restrict;
mod rows;
mod sandbox;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod syscalls;
mod value;

pub use entry::enter;
pub use error::SandboxError;
pub use extract::program;
pub use problem::{Problem, Test, Tests};
pub use rows::{humaneval_plus, leetcode, livecodebench};
pub use sandbox::{Limits, Sandbox};

/// The name of asap's hidden command that calls [`enter`].
pub const COMMAND: &str = "sandboxed-python";

/// The result of a program's tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub reason: Reason,
    /// One short line, such as the exception or the failed test. Empty if the program passed.
    pub detail: String,
    /// From the start of the program to its last test, without the start of Python: time of processors and asleep.
    pub seconds: f64,
}

impl Verdict {
    pub fn passed(&self) -> bool {
        self.reason == Reason::Ok
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Ok,
    WrongAnswer,
    RuntimeError,
    SyntaxError,
    Timeout,
    Memory,
    /// The program left before its tests ended.
    EarlyExit,
    /// The response has no code block.
    NoCode,
    /// The response ends inside its chain of thought.
    NoAnswer,
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::WrongAnswer => "wrong_answer",
            Self::RuntimeError => "runtime_error",
            Self::SyntaxError => "syntax_error",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::EarlyExit => "early_exit",
            Self::NoCode => "no_code",
            Self::NoAnswer => "no_answer",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }
}
