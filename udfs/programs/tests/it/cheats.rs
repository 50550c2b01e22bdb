//! Programs that try to be right without the right results, and what the process of a program gets.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use asap_programs::{Limits, Problem, Reason, Sandbox};
use serde::Deserialize;

use super::{CHILD, judge_all, problem, read, sandbox};

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
    let checked = |form: Form| {
        let mut problem = problem(&form.bench, &form.row).unwrap();
        assert!(sandbox.check_reference(&mut problem).unwrap().is_none_or(|verdict| verdict.passed()));
        let verdict = sandbox.judge(&problem, &honest.response(&form.program)).unwrap();
        assert_eq!(verdict.reason, Reason::Ok, "{}", verdict.detail);
        problem.seconds = 3.0;
        (problem, form.program)
    };
    read(PROBLEMS).into_iter().map(checked).collect()
}

#[test]
fn no_cheat_is_right() {
    let sandbox = sandbox();
    let (problems, cheats) = (problems(&sandbox), read::<Cheat>(CHEATS));
    let pairs: Vec<_> = cheats.iter().flat_map(|cheat| problems.iter().map(move |problem| (cheat, problem))).collect();
    judge_all(&pairs, |(cheat, (problem, program))| {
        let verdict = sandbox.judge(problem, &cheat.response(program)).unwrap();
        assert!(!verdict.passed(), "{}: {program}", cheat.name);
    });
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
