use serde::{Deserialize, Serialize};

/// A problem of a bench, with its tests.
#[derive(Debug, Clone)]
pub struct Problem {
    pub id: String,
    /// The text that the model is asked.
    pub question: String,
    /// Code that the program has to begin with, if the bench gives any.
    pub starter: Option<String>,
    /// The day of the contest, of LiveCodeBench.
    pub contest_date: Option<String>,
    /// Python that runs before the program: what the question shows or the bench imports.
    pub before: String,
    /// Code that a program completes if it is only the body of a function, of HumanEval+.
    pub prompt: Option<String>,
    /// The function that the tests call, as they write it. None if the program reads standard input.
    pub entry_point: Option<String>,
    /// The bench's own program.
    pub reference: Option<String>,
    pub tests: Tests,
    /// Time limit: of each test for [`Tests::Stdin`] and [`Tests::Method`], else of all. Raised to four times the
    /// seconds of the reference program by [`check_reference`](crate::Sandbox::check_reference).
    pub seconds: f64,
}

/// What decides whether a program is right.
#[derive(Debug, Clone)]
pub enum Tests {
    /// Python that defines a function `check`, which takes the entry point.
    Check { test: String },
    /// The calls of a row of HumanEval+, which stays text: it has integers of any length. `expected` holds what the
    /// reference program returned, as tagged text.
    Calls { row: String, expected: Option<String> },
    /// Arguments and result as lines of JSON, for a function or for a method of the class `Solution`.
    Method { tests: Vec<Test> },
    /// What the program reads and what it prints.
    Stdin { tests: Vec<Test> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    pub input: String,
    pub output: String,
}

/// Whether the code defines a name on its outermost level: as a function, as a class or by assignment.
pub(crate) fn defines(code: &str, name: &str) -> bool {
    code.lines().any(|line| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let definition = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "));
        let Some(rest) = definition.unwrap_or(line).trim_start().strip_prefix(name) else { return false };
        let rest = rest.trim_start();
        if definition.is_some() {
            rest.starts_with(['(', ':', '['])
        } else {
            rest.starts_with('=') && !rest.starts_with("==")
        }
    })
}
