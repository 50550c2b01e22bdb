//! Right, wrong and hostile programs, each with the verdict that it has to get, as this user and as another one.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs};

use asap_programs::{Limits, Problem, Sandbox, Test, Tests, program};
use serde::Deserialize;

use super::{CHILD, judge_all, read};

const CASES: &str = include_str!("code_cases.jsonl");
const HOSTILE: &str = include_str!("hostile_cases.jsonl");
const VALUES: &str = include_str!("value_cases.jsonl");
/// Responses, each with its program, or with the reason why it has none.
const RESPONSES: &str = include_str!("extract_cases.jsonl");
/// Names the copy of the child that another user can start.
const COPY: &str = "ASAP_PROGRAMS_CHILD";
const NOBODY: &str = "65534";
const OUTSIDE: &str = "/tmp/asap-escape";

#[derive(Deserialize)]
struct Case {
    name: String,
    form: String,
    entry_point: Option<String>,
    func_name: Option<String>,
    #[serde(default)]
    before: String,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    tests: Vec<Test>,
    response: String,
    expect: String,
    reason: String,
    #[serde(default)]
    also: Vec<String>,
    /// The program in the response.
    program: Option<String>,
}

impl Case {
    fn problem(&self) -> Problem {
        let tests = self.tests.clone();
        Problem {
            id: self.name.clone(),
            question: self.prompt.clone(),
            starter: None,
            contest_date: None,
            before: if self.form == "method" { "from typing import *".to_string() } else { self.before.clone() },
            prompt: (self.form == "function").then(|| self.prompt.clone()),
            entry_point: self.entry_point.clone().or(self.func_name.clone()),
            reference: None,
            tests: match self.form.as_str() {
                "function" => Tests::Check { test: self.test.clone() },
                "method" => Tests::Method { tests },
                _ => Tests::Stdin { tests },
            },
            seconds: 3.0,
        }
    }

    /// Returns what is wrong with the verdict.
    fn fails(&self, sandbox: &Sandbox) -> Option<String> {
        let verdict = sandbox.judge(&self.problem(), &self.response).unwrap();
        let is_reason = [&self.reason].into_iter().chain(&self.also).any(|reason| reason == verdict.reason.name());
        let is_right = is_reason && verdict.passed() == (self.expect == "pass");
        (!is_right && self.expect != "either").then(|| format!("{}: {verdict:?}", self.name))
    }
}

#[test]
fn programs_are_found_in_their_responses() {
    for case in read::<Case>(RESPONSES) {
        let found = program(&case.problem(), &case.response);
        let expected = case.program.as_deref().ok_or(case.reason.as_str());
        assert_eq!(found.as_deref().map_err(|reason| reason.name()), expected, "{}", case.name);
    }
}

#[test]
fn every_case_gets_its_verdict() {
    run_cases(&[]);
}

#[test]
fn every_case_gets_its_verdict_as_another_user() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root && Path::new("/usr/bin/setpriv").exists() {
        run_cases(&["/usr/bin/setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    }
}

/// Judges in a process of its own, and looks for what remains after it.
fn run_cases(before: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (temporary, home) = (folder.path().join("temporary"), folder.path().join("home"));
    let key = home.join(".ssh/id_rsa");
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    fs::write(&key, "secret").unwrap();
    fs::create_dir(&temporary).unwrap();
    for open in [folder.path(), &temporary, &home] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let copied = |from: &Path, name: &str| -> PathBuf {
        let to = folder.path().join(name);
        // Not by this process: a child that another test starts meanwhile would hold the copy open for writing.
        assert!(Command::new("cp").args([from, &to]).status().unwrap().success());
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        to
    };
    let judge = copied(&env::current_exe().unwrap(), "judge");
    let child = copied(Path::new(CHILD), "child");
    let state = || [&home, &key.parent().unwrap().to_path_buf(), &key].map(|path| state(path));
    let untouched = state();

    let words: Vec<_> = before.iter().map(|word| word.into()).chain([judge.into_os_string()]).collect();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(["cases::judges_all_cases", "--exact", "--ignored", "--nocapture"])
        .env("TMPDIR", &temporary)
        .env("HOME", &home)
        .env("OPENAI_API_KEY", "secret")
        .env(COPY, child)
        .current_dir(&home)
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "a folder remains");
    assert_eq!(state(), untouched, "the home folder has changed");
    assert!(!Path::new(OUTSIDE).exists(), "{OUTSIDE} was written");
    assert_eq!(processes_in(folder.path()), Vec::<PathBuf>::new());
}

fn state(path: &Path) -> (u32, i64, i64, u64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), metadata.len())
}

/// The processes whose working folder is below this one.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().map(|process| process.unwrap().path().join("cwd"));
    processes.filter(|cwd| fs::read_link(cwd).is_ok_and(|path| path.starts_with(folder))).collect()
}

#[test]
#[ignore = "the other tests start it in a process of its own"]
fn judges_all_cases() {
    // That of the system, which any user can start, unless PYTHON names another one.
    let of_system = if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
    let python = env::var("PYTHON").unwrap_or(of_system.to_string());
    let limits = Limits { memory_bytes: 1 << 30, ..Limits::default() };
    let sandbox = Sandbox::new(&python, vec![env::var_os(COPY).unwrap()], limits).unwrap();
    let cases: Vec<Case> = [CASES, HOSTILE, VALUES].into_iter().flat_map(read).collect();
    let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), cases.len());
    let wrong = Mutex::new(Vec::new());
    judge_all(&cases, |case| wrong.lock().unwrap().extend(case.fails(&sandbox)));
    assert!(wrong.lock().unwrap().is_empty(), "{wrong:#?}");
}
