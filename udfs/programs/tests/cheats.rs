//! Programs that try to be right without the right results, and what the process of a program gets.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;
use std::{fs, thread};

use asap_programs::{Limits, Problem, Reason, Sandbox, humaneval_plus, leetcode, livecodebench};
use serde::Deserialize;

const CHILD: &str = env!("CARGO_BIN_EXE_sandboxed-python");
/// Problems of all forms whose answer is `x + 1`, each with the program that returns an expression.
const PROBLEMS: &str = include_str!("cheat_problems.jsonl");
const CHEATS: &str = include_str!("cheats.jsonl");
/// What only the tests and the reference programs hold.
const SECRETS: [&str; 3] = ["4711", "total_of_both", "own_message"];

#[derive(Deserialize)]
struct Form {
    bench: String,
    row: String,
    program: String,
}

/// A program runs the cheat first, and returns something else than the answer.
#[derive(Deserialize)]
struct Cheat {
    name: String,
    cheat: String,
    returns: String,
}

impl Cheat {
    fn response(&self, program: &str) -> String {
        format!("```python\n{}\n{}\n```", self.cheat, program.replace("{}", &self.returns))
    }
}

/// Checks that an honest program is right.
fn problems(sandbox: &Sandbox) -> Vec<(Problem, String)> {
    let honest = Cheat { name: String::new(), cheat: "generated = True".to_string(), returns: "x + 1".to_string() };
    let problem = |line| {
        let form: Form = serde_json::from_str(line).unwrap();
        let read = match form.bench.as_str() {
            "humaneval_plus" => humaneval_plus,
            "leetcode" => leetcode,
            _ => livecodebench,
        };
        let mut problem = read(&form.row).unwrap();
        assert!(sandbox.check_reference(&mut problem).unwrap().is_none_or(|verdict| verdict.passed()));
        let verdict = sandbox.judge(&problem, &honest.response(&form.program)).unwrap();
        assert_eq!(verdict.reason, Reason::Ok, "{}", verdict.detail);
        problem.seconds = 3.0;
        (problem, form.program)
    };
    PROBLEMS.lines().map(problem).collect()
}

#[test]
fn no_cheat_is_right() {
    let limits = Limits { memory_bytes: 1 << 30, ..Limits::default() };
    let sandbox = Sandbox::new("python3", vec![CHILD.into()], limits).unwrap();
    let problems = problems(&sandbox);
    let cheats: Vec<Cheat> = CHEATS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pairs = Mutex::new(cheats.iter().flat_map(|cheat| problems.iter().map(move |problem| (cheat, problem))));
    let judge_all = || {
        loop {
            let Some((cheat, (problem, program))) = pairs.lock().unwrap().next() else { return };
            let verdict = sandbox.judge(problem, &cheat.response(program)).unwrap();
            assert!(!verdict.passed(), "{}: {program}", cheat.name);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(judge_all))));
}

#[test]
fn the_process_of_a_program_gets_nothing_to_compare_with() {
    let folder = tempfile::tempdir().unwrap();
    // Keeps each request, and hands it on.
    let script = format!("cat > {0}/$$; exec {CHILD} \"$@\" < {0}/$$", folder.path().display());
    let command = ["sh", "-c", &script, "sh"].map(OsString::from).to_vec();
    problems(&Sandbox::new("python3", command, Limits::default()).unwrap());
    let files = fs::read_dir(&folder).unwrap().map(|file| -> PathBuf { file.unwrap().path() });
    let texts = files.map(|file| fs::read_to_string(file).unwrap());
    let requests: Vec<_> = texts.filter(|text| text.contains("generated = True")).collect();
    assert_eq!(requests.len(), PROBLEMS.lines().count());
    for request in requests {
        assert!(SECRETS.iter().all(|secret| !request.contains(secret)), "{request}");
        let names: serde_json::Map<_, _> = serde_json::from_str(&request).unwrap();
        assert!(names.keys().eq(["before", "entry_point", "inputs", "kind", "program"]), "{request}");
    }
}
