//! Time, threads and the size of results.

use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use asap_programs::{Limits, Problem, Reason, Sandbox, Verdict, humaneval_plus, livecodebench};
use serde_json::json;

use super::{CHILD, sandbox};

/// A problem of HumanEval+ whose only call returns the value of an expression.
fn problem(expected: &str) -> Problem {
    let row = json!({
        "task_id": "own", "prompt": "def own():\n", "entry_point": "own", "base_input": [[]], "plus_input": [], "atol": 0,
        "canonical_solution": format!("    return {expected}\n"),
    });
    let mut problem = humaneval_plus(&row.to_string()).unwrap();
    let verdict = sandbox().check_reference(&mut problem).unwrap().unwrap();
    assert!(verdict.passed(), "{}", verdict.detail);
    problem
}

fn judged(problem: &Problem, code: &str) -> Verdict {
    // Each thread of the C library takes address space.
    let sandbox = Sandbox::new("python3", vec![CHILD.into()], Limits::default()).unwrap();
    sandbox.judge(problem, &format!("```python\n{code}\n```")).unwrap()
}

/// Processes that compute for nothing.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Self {
        let count = 4 * thread::available_parallelism().unwrap().get();
        let busy = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..count).map(|_| busy()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

#[test]
fn waiting_for_a_processor_takes_no_time() {
    let mut problem = problem("7");
    problem.seconds = 1.5;
    let computes = |seconds: f64| {
        format!("import time\ndef own():\n    while time.process_time() < {seconds}:\n        pass\n    return 7")
    };
    let load = Load::start();
    let begun = Instant::now();
    let verdict = judged(&problem, &computes(1.0));
    assert_eq!(verdict.reason, Reason::Ok, "{}", verdict.detail);
    assert!(verdict.seconds < 1.5 && begun.elapsed().as_secs_f64() > verdict.seconds, "{}", verdict.seconds);
    drop(load);
    assert_eq!(judged(&problem, &computes(10.0)).reason, Reason::Timeout);
}

#[test]
fn sleeping_takes_time() {
    let mut problem = problem("7");
    problem.seconds = 1.0;
    let begun = Instant::now();
    for code in [
        "import time\ndef own():\n    time.sleep(60)",
        "import threading\ndef own():\n    threading.Lock().acquire()\n    threading.Event().wait()",
    ] {
        assert_eq!(judged(&problem, code).reason, Reason::Timeout);
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn threads_are_counted() {
    let problem = problem("7");
    let start = |count: &str| {
        format!(
            "import itertools, threading, time\nthreading.stack_size(32768)\ndef own():\n    for _ in {count}:\n        \
             threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n    return 7"
        )
    };
    assert_eq!(judged(&problem, &start("range(100)")).reason, Reason::Ok);
    let verdict = judged(&problem, &start("itertools.count()"));
    assert_eq!(
        (verdict.reason, verdict.detail.as_str()),
        (Reason::RuntimeError, "ended because it had more than 256 threads")
    );
}

#[test]
fn large_results_are_compared_while_they_are_read() {
    let problem = problem("list(range(1_000_000))");
    assert_eq!(judged(&problem, "def own():\n    return list(range(1_000_000))").reason, Reason::Ok);
    // Equal, but not the same text.
    assert_eq!(judged(&problem, "def own():\n    return [float(i) for i in range(1_000_000)]").reason, Reason::Ok);
    let wrong = judged(&problem, "def own():\n    return [i + (i == 999_999) for i in range(1_000_000)]");
    assert_eq!(wrong.reason, Reason::WrongAnswer);
    assert!(wrong.detail.contains("found a result of"), "{}", wrong.detail);
    // A million values are expected, and a hundred million arrive.
    let raw = "import sys\nframe = sys._getframe()\nwhile 'report' not in frame.f_locals:\n    frame = frame.f_back\n\
        frame.f_locals['report']('value', 'l100000000:' + 'N' * 100_000_000)\ndef own(): pass";
    assert_eq!(judged(&problem, raw).reason, Reason::WrongAnswer);
}

/// A program that ends or holds up Python's compiler has a verdict of its own, and the next one is judged.
#[test]
fn compiling_is_the_programs_own_time() {
    let row = json!({
        "question_id": "1", "question_content": "", "starter_code": "", "private_test_cases": "[]", "metadata": "{}",
        "public_test_cases": json!([{ "input": "1", "output": "2", "testtype": "stdin" }]).to_string(),
    });
    let problem_of_lines = livecodebench(&row.to_string()).unwrap();
    let deep = format!("x = a{}", ".b".repeat(100_000));
    assert_eq!(judged(&problem_of_lines, &deep).reason, Reason::RuntimeError);
    assert_eq!(judged(&problem_of_lines, "print(int(input()) + 1)").reason, Reason::Ok);
    // The compiler copies each `finally` for each way out of its `try`.
    let nested = |levels: usize| {
        let begin: String =
            (0..levels).map(|level| format!("{0}try:\n{0} pass\n{0}finally:\n", " ".repeat(level))).collect();
        format!("{begin}{}pass\ndef own():\n    return 7", " ".repeat(levels))
    };
    let mut problem = problem("7");
    problem.seconds = 0.5;
    assert_eq!(judged(&problem, &nested(18)).reason, Reason::Timeout);
    assert_eq!(judged(&problem, &nested(3)).reason, Reason::Ok);
}
