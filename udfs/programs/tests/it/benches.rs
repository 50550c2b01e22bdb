//! Rows as the benches publish them, their reference programs, and what is refused before any program is judged.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, thread};

use asap_programs::{Limits, Sandbox, SandboxError, Tests, humaneval_plus, leetcode, livecodebench};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CHILD, judge_all, problem, read, sandbox};

const CASES: &str = include_str!("bench_cases.jsonl");
/// zlib of the pickle of an object whose reading calls `os.system`.
const MALICIOUS: &str = "eJxrYJlqxAABPawF+cWZFVN62Iori0tSc6dMntIjXpJfmpyhoF+SW6CfWJxYoFuQmZydk5oypXVK0BQ9AFTtFZo=";

/// A row, and programs with their verdicts.
#[derive(Deserialize)]
struct Published {
    name: String,
    bench: String,
    /// An object, or a text of JSON whose integers have any length.
    row: Value,
    /// The reason of the reference program's verdict, if there is one.
    reference: Option<String>,
    /// How the verdict's detail begins.
    #[serde(default)]
    detail: String,
    /// The time limit after the reference program is above this one.
    #[serde(default)]
    more_seconds_than: f64,
    seconds: Option<f64>,
    programs: Vec<Judged>,
}

#[derive(Deserialize)]
struct Judged {
    program: String,
    reason: String,
    detail: Option<String>,
}

impl Published {
    fn row(&self) -> String {
        self.row.as_str().map_or_else(|| self.row.to_string(), str::to_string)
    }
}

#[test]
fn rows_and_programs_are_judged_as_by_the_benches() {
    let sandbox = sandbox();
    judge_all(&read(CASES), |case: &Published| {
        let name = &case.name;
        let mut problem = problem(&case.bench, &case.row()).unwrap();
        if matches!(problem.tests, Tests::Calls { .. }) {
            let early = sandbox.judge(&problem, &fenced("")).unwrap_err();
            assert!(matches!(early, SandboxError::NothingExpected(_)), "{early}");
        }
        let verdict = sandbox.check_reference(&mut problem).unwrap();
        assert_eq!(verdict.as_ref().map(|verdict| verdict.reason.name()), case.reference.as_deref(), "{name}");
        assert!(verdict.is_none_or(|verdict| verdict.detail.starts_with(&case.detail)), "{name}");
        assert!(problem.seconds > case.more_seconds_than, "{name}: {}", problem.seconds);
        problem.seconds = case.seconds.unwrap_or(problem.seconds);
        for Judged { program, reason, detail } in &case.programs {
            let verdict = sandbox.judge(&problem, &fenced(program)).unwrap();
            assert_eq!(verdict.reason.name(), reason, "{name}: {program}");
            assert!(detail.as_ref().is_none_or(|detail| *detail == verdict.detail), "{name}: {}", verdict.detail);
        }
    });
}

fn fenced(program: &str) -> String {
    format!("<think>\nHm.\n</think>\n\n```python\n{program}\n```\n")
}

/// The first row of a bench.
fn row(bench: &str) -> Value {
    read(CASES).into_iter().find(|case: &Published| case.bench == bench).unwrap().row
}

#[test]
fn livecodebench_reads_its_private_tests() {
    for case in read::<Published>(CASES).iter().filter(|case| case.name.starts_with("private tests")) {
        let problem = livecodebench(&case.row()).unwrap();
        assert_eq!(problem.contest_date.as_deref(), Some("2023-08-21T00:00:00"));
        assert!(matches!(&problem.tests, Tests::Stdin { tests } if tests.len() == 2 && tests[1].output == "10\n"));
    }
    let mut row = row("livecodebench");
    row["private_test_cases"] = json!(MALICIOUS);
    let error = livecodebench(&row.to_string()).unwrap_err();
    assert!(error.contains("is refused"), "{error}");
    assert!(!PathBuf::from("/tmp/asap-pickled").exists());
}

#[test]
fn rows_that_lack_a_field_are_refused() {
    let mut row = row("leetcode");
    row["test"] = json!(7);
    let error = leetcode(&row.to_string()).unwrap_err();
    assert!(error == "expected a text in the field test, found 7", "{error}");
    row.as_object_mut().unwrap().retain(|name, _| name != "test" && name != "prompt");
    assert_eq!(leetcode(&row.to_string()).unwrap_err(), "the row lacks prompt, test");
    assert!(humaneval_plus("[]").unwrap_err().starts_with("expected a JSON object"));
}

#[test]
fn modules_that_the_tests_import_are_looked_for() {
    let (halves, mut row) = (humaneval_plus(&row("humaneval_plus").to_string()).unwrap(), row("leetcode"));
    row["prompt"] = json!("import math, asap_has_no_such_module.part\nfrom collections import deque\n");
    let problem = leetcode(&row.to_string()).unwrap();
    let error = sandbox().check_imports([&problem, &halves]).unwrap_err().to_string();
    assert!(error.contains("asap_has_no_such_module") && error.contains("pip install"), "{error}");
    sandbox().check_imports([&halves]).unwrap();
}

/// Why there is no sandbox with this Python and this command.
fn refusal(python: &str, command: Vec<OsString>) -> String {
    Sandbox::new(python, command, Limits::default()).unwrap_err().to_string()
}

#[test]
fn a_python_that_is_missing_or_broken_is_named() {
    for (python, expected) in [
        ("asap-has-no-such-python", "cannot run the Python asap-has-no-such-python: No such file"),
        ("/bin/false", "cannot run the Python /bin/false: it ended with exit status: 1"),
        ("/bin/echo", "cannot run the Python /bin/echo"),
    ] {
        let error = refusal(python, vec![CHILD.into()]);
        assert!(error.starts_with(expected), "{error}");
    }
}

/// Seccomp filters of a thread hold for the processes that it starts.
#[test]
fn a_kernel_without_landlock_is_refused() {
    let error = thread::spawn(|| {
        use seccompiler::{SeccompAction, SeccompFilter};
        const CREATE_RULESET: i64 = 444;
        let rules = [(CREATE_RULESET, Vec::new())].into_iter().collect();
        let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
        let filter =
            SeccompFilter::new(rules, SeccompAction::Allow, refuse, env::consts::ARCH.try_into().unwrap()).unwrap();
        let filter: seccompiler::BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter(&filter).unwrap();
        refusal("python3", vec![CHILD.into()])
    });
    let error = error.join().unwrap();
    assert!(error.contains("no Landlock"), "{error}");
}

#[test]
fn a_sandbox_that_holds_nothing_back_is_refused() {
    // In place of the hidden command: Python without any restriction.
    let harness = concat!(env!("CARGO_MANIFEST_DIR"), "/src/harness.py");
    let script = format!("exec \"$4\" {harness} ''");
    let error = refusal("python3", ["sh", "-c", &script, "sh"].map(OsString::from).to_vec());
    for what in ["a network connection", "a new process", "writing a file", "reading a folder"] {
        assert!(error.contains(what), "{error}");
    }
}
