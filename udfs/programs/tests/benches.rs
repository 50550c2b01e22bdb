//! Rows as the benches publish them, their reference programs, and what is refused before any program is judged.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, thread};

use asap_programs::{
    Limits, Problem, Reason, Sandbox, SandboxError, Tests, Verdict, humaneval_plus, leetcode, livecodebench,
};
use serde_json::{Value, json};

/// zlib of pickles of the text `[{"input": "4\n1 2 3 4\n", "output": "10\n", "testtype": "stdin"}]`.
const PICKLED: [&str; 2] = [
    "eJxrYJnqxgABPU7R1UqZeQWlJUpWCkomMXmGCkYKxgpAhpKOglJ+aQlUxtAAIlKSWlxSUlmQChIrLknJzFOqjZ2iBwBHdxaA",
    "eJxrYIpwYmBgiK5WyswrKC1RslJQMonJM1QwUjBWADKUdBSU8ktLoDKGBhCRktTikpLKglSQWHFJSmaeUm1sIYMeAAjkFUw=",
];
/// zlib of the pickle of an object whose reading calls `os.system`.
const MALICIOUS: &str = "eJxrYJlqxAABPawF+cWZFVN62Iori0tSc6dMntIjXpJfmpyhoF+SW6CfWJxYoFuQmZydk5oypXVK0BQ9AFTtFZo=";

fn command() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_sandboxed-python").into()]
}

fn sandbox() -> Sandbox {
    Sandbox::new("python3", command(), Limits::default()).unwrap()
}

fn fenced(program: &str) -> String {
    format!("<think>\nHm.\n</think>\n\n```python\n{program}\n```\n")
}

fn humaneval(entry_point: &str, prompt: &str, solution: &str, inputs: &Value) -> Value {
    json!({
        "task_id": "HumanEval/7", "prompt": prompt, "entry_point": entry_point, "canonical_solution": solution,
        "base_input": [inputs[0]], "plus_input": inputs, "atol": 0, "test": "", "contract": "",
    })
}

fn halves() -> Problem {
    let prompt = "from typing import List\n\ndef half(x: int):\n    return x / 2\n\ndef halves(xs: List[int]):\n    \"\"\"Half of each.\"\"\"\n";
    let inputs = json!([[[1, 2]], [[]], [[3, 4, 5]]]);
    humaneval_plus(&humaneval("halves", prompt, "    return [half(x) for x in xs]\n", &inputs).to_string()).unwrap()
}

fn reason(sandbox: &Sandbox, problem: &Problem, program: &str) -> Reason {
    sandbox.judge(problem, &fenced(program)).unwrap().reason
}

#[test]
fn humaneval_plus_compares_with_the_reference_program() {
    let sandbox = sandbox();
    let mut problem = halves();
    let early = sandbox.judge(&problem, &fenced("")).unwrap_err();
    assert!(matches!(early, SandboxError::NothingExpected(_)), "{early}");
    assert!(sandbox.check_reference(&mut problem).unwrap().unwrap().passed());
    let judged = |program: &str| reason(&sandbox, &problem, program);
    assert_eq!(judged("def halves(xs):\n    return [x * 0.5 for x in xs]"), Reason::Ok);
    // Helpers of the question are there, and a body completes it.
    assert_eq!(judged("def halves(xs):\n    return [half(x) for x in xs]"), Reason::Ok);
    assert_eq!(judged("    return [half(x) for x in xs]"), Reason::Ok);
    assert_eq!(judged("halves = lambda xs: [x * 0.50000001 for x in xs]"), Reason::Ok, "within the tolerance");
    assert_eq!(judged("def halves(xs):\n    return [x * 0.5001 for x in xs]"), Reason::WrongAnswer);
    assert_eq!(judged("def halves(xs):\n    return tuple(x / 2 for x in xs)"), Reason::WrongAnswer);
    assert_eq!(judged("def halves(xs):\n    return [x / 2 for x in xs] if xs else None"), Reason::WrongAnswer);
}

#[test]
fn integers_of_any_length_stay_exact() {
    let sandbox = sandbox();
    let row = humaneval("next_to", "def next_to(x):\n", "    return x + 1\n", &json!([[7]])).to_string();
    let row = row.replace("\"base_input\":[[7]]", "\"base_input\":[[123456789012345678901234567890]]");
    let mut problem = humaneval_plus(&row).unwrap();
    assert!(sandbox.check_reference(&mut problem).unwrap().unwrap().passed());
    assert_eq!(reason(&sandbox, &problem, "def next_to(x):\n    return 1 + x"), Reason::Ok);
    assert_eq!(reason(&sandbox, &problem, "def next_to(x):\n    return int(float(x)) + 1"), Reason::WrongAnswer);
}

#[test]
fn zeros_are_judged_by_the_value_of_the_polynomial() {
    let sandbox = sandbox();
    let mut row =
        humaneval("find_zero", "def find_zero(xs: list):\n", "    return 1.0\n", &json!([[[-1, 0, 1]], [[-2, 2]]]));
    row["atol"] = json!(1e-4);
    let mut problem = humaneval_plus(&row.to_string()).unwrap();
    assert!(sandbox.check_reference(&mut problem).unwrap().unwrap().passed());
    let other = "def find_zero(xs):\n    return -1.0 if len(xs) == 3 else 1.0";
    assert_eq!(reason(&sandbox, &problem, other), Reason::Ok);
    let hides = "def find_zero(xs):\n    xs[:] = [0]\n    return 5.0";
    assert_eq!(reason(&sandbox, &problem, hides), Reason::WrongAnswer);
}

#[test]
fn a_reference_program_that_fails_is_reported() {
    let sandbox = sandbox();
    let raises = humaneval("f", "def f(x):\n", "    raise ValueError('no')\n", &json!([[7]]));
    let random = humaneval("f", "import random\ndef f(x):\n", "    return random.random()\n", &json!([[7]]));
    for (row, expected, detail) in
        [(raises, Reason::RuntimeError, "ValueError: no"), (random, Reason::WrongAnswer, "call 1")]
    {
        let verdict = sandbox.check_reference(&mut humaneval_plus(&row.to_string()).unwrap()).unwrap().unwrap();
        assert_eq!(verdict.reason, expected);
        assert!(verdict.detail.starts_with(detail), "{}", verdict.detail);
    }
}

fn leetcode_row() -> Value {
    json!({
        "task_id": "two-sum", "problem_description": "Find two.", "starter_code": "class Solution:\n    def twoSum(",
        "prompt": "from typing import *\nfrom collections import *\n", "entry_point": "Solution().twoSum",
        "completion": "class Solution:\n    def twoSum(self, nums: List[int], target: int):\n        seen = {}\n        for i, x in enumerate(nums):\n            if target - x in seen:\n                return [seen[target - x], i]\n            seen[x] = i\n",
        "test": "def check(candidate):\n    assert candidate(nums = [2, 7, 11], target = 9) == [0, 1]\n",
    })
}

#[test]
fn leetcode_runs_check() {
    let sandbox = sandbox();
    let mut problem = leetcode(&leetcode_row().to_string()).unwrap();
    assert!(sandbox.check_reference(&mut problem).unwrap().unwrap().passed());
    let program = "class Solution:\n    def twoSum(self, nums: List[int], target):\n        return [0, 1]";
    assert_eq!(reason(&sandbox, &problem, program), Reason::Ok);
    let Verdict { reason, detail, .. } = sandbox.judge(&problem, &fenced(&program.replace("[0, 1]", "[]"))).unwrap();
    assert_eq!((reason, &*detail), (Reason::WrongAnswer, "assert candidate(nums = [2, 7, 11], target = 9) == [0, 1]"));
}

#[test]
fn a_slow_reference_program_raises_the_time_limit() {
    let mut row = leetcode_row();
    let slow = row["completion"].as_str().unwrap().replace("seen = {}", "import time; time.sleep(1.2); seen = {}");
    row["completion"] = json!(slow);
    let mut problem = leetcode(&row.to_string()).unwrap();
    assert!(sandbox().check_reference(&mut problem).unwrap().unwrap().passed());
    assert!(problem.seconds > 4.7, "{}", problem.seconds);
}

fn livecodebench_row(private: &str, metadata: &str, starter: &str, public: &Value) -> Value {
    json!({
        "question_id": "1873_A", "question_content": "Sum.", "starter_code": starter, "contest_date": "2023-08-21T00:00:00",
        "public_test_cases": public.to_string(), "private_test_cases": private, "metadata": metadata,
    })
}

#[test]
fn livecodebench_reads_its_private_tests() {
    let sandbox = sandbox();
    let public = json!([{"input": "1\n5\n", "output": "5\n", "testtype": "stdin"}]);
    let plain = json!([{"input": "4\n1 2 3 4\n", "output": "10\n", "testtype": "stdin"}]).to_string();
    for private in [PICKLED[0], PICKLED[1], &plain] {
        let mut problem = livecodebench(&livecodebench_row(private, "{}", "", &public).to_string()).unwrap();
        assert_eq!(problem.contest_date.as_deref(), Some("2023-08-21T00:00:00"));
        assert!(matches!(&problem.tests, Tests::Stdin { tests } if tests.len() == 2 && tests[1].output == "10\n"));
        assert_eq!(sandbox.check_reference(&mut problem).unwrap(), None);
        // Its modules are imported.
        assert_eq!(reason(&sandbox, &problem, "input()\nprint(reduce(add, map(int, input().split())))"), Reason::Ok);
        assert_eq!(reason(&sandbox, &problem, "input()\nprint(input())"), Reason::WrongAnswer);
    }
    let error = livecodebench(&livecodebench_row(MALICIOUS, "{}", "", &public).to_string()).unwrap_err();
    assert!(error.contains("is refused"), "{error}");
    assert!(!PathBuf::from("/tmp/asap-pickled").exists());
}

#[test]
fn livecodebench_calls_methods() {
    let sandbox = sandbox();
    let public = json!([{"input": "[1, 2]\n\"a\"", "output": "[[1, 2], \"a\"]", "testtype": "functional"}]);
    let row = livecodebench_row("[]", r#"{"func_name": "both"}"#, "class Solution:", &public);
    let problem = livecodebench(&row.to_string()).unwrap();
    let program = "class Solution:\n    def both(self, xs: List[int], s: str):\n        return (xs, s)";
    assert_eq!(reason(&sandbox, &problem, program), Reason::Ok);
    assert_eq!(reason(&sandbox, &problem, "def both(xs, s):\n    return [xs, s]"), Reason::Ok);
    assert_eq!(reason(&sandbox, &problem, "def other(xs, s):\n    return [xs, s]"), Reason::RuntimeError);
}

#[test]
fn each_test_of_livecodebench_has_the_time_limit() {
    let sandbox = sandbox();
    let tests: Vec<_> = (0..4).map(|_| json!({"input": "", "output": "1", "testtype": "stdin"})).collect();
    let mut problem = livecodebench(&livecodebench_row("[]", "{}", "", &json!(tests)).to_string()).unwrap();
    problem.seconds = 3.0;
    assert_eq!(reason(&sandbox, &problem, "import time\ntime.sleep(1.2)\nprint(1)"), Reason::Ok);
    assert_eq!(reason(&sandbox, &problem, "import time\ntime.sleep(30)\nprint(1)"), Reason::Timeout);
}

#[test]
fn rows_that_lack_a_field_are_refused() {
    let mut row = leetcode_row();
    row.as_object_mut().unwrap().retain(|name, _| name != "test" && name != "prompt");
    assert_eq!(leetcode(&row.to_string()).unwrap_err(), "the row lacks prompt, test");
    assert!(humaneval_plus("[]").unwrap_err().starts_with("expected a JSON object"));
    row = leetcode_row();
    row["test"] = json!(7);
    let error = leetcode(&row.to_string()).unwrap_err();
    assert!(error == "expected a text in the field test, found 7", "{error}");
}

#[test]
fn modules_that_the_tests_import_are_looked_for() {
    let mut row = leetcode_row();
    row["prompt"] = json!("import math, asap_has_no_such_module.part\nfrom collections import deque\n");
    let problem = leetcode(&row.to_string()).unwrap();
    let error = sandbox().check_imports([&problem, &halves()]).unwrap_err().to_string();
    assert!(error.contains("asap_has_no_such_module") && error.contains("pip install"), "{error}");
    sandbox().check_imports([&halves()]).unwrap();
}

#[test]
fn a_python_that_is_missing_or_broken_is_named() {
    for (python, expected) in [
        ("asap-has-no-such-python", "cannot run the Python asap-has-no-such-python: No such file"),
        ("/bin/false", "cannot run the Python /bin/false: it ended with exit status: 1"),
        ("/bin/echo", "cannot run the Python /bin/echo"),
    ] {
        let error = Sandbox::new(python, command(), Limits::default()).unwrap_err().to_string();
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
        Sandbox::new("python3", command(), Limits::default()).unwrap_err().to_string()
    });
    let error = error.join().unwrap();
    assert!(error.contains("no Landlock"), "{error}");
}

#[test]
fn a_sandbox_that_holds_nothing_back_is_refused() {
    // In place of the hidden command: Python without any restriction.
    let harness = concat!(env!("CARGO_MANIFEST_DIR"), "/src/harness.py");
    let script = format!("cd \"$4\" && exec \"$5\" {harness}");
    let command = ["sh", "-c", &script, "sh"].map(OsString::from).to_vec();
    let error = Sandbox::new("python3", command, Limits::default()).unwrap_err().to_string();
    for what in ["a network connection", "a new process", "writing outside"] {
        assert!(error.contains(what), "{error}");
    }
}
