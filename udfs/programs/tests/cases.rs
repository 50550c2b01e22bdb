//! Right, wrong and hostile programs, each with the verdict that it has to get.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use asap_programs::{Limits, Problem, Sandbox, Test, Tests};
use serde::Deserialize;

const CASES: &str = include_str!("code_cases.jsonl");
/// Set for the run as another user.
const AS_OTHER: &str = "ASAP_PROGRAMS_AS_OTHER";
const NOBODY: &str = "65534";

#[derive(Deserialize)]
struct Case {
    name: String,
    form: String,
    entry_point: Option<String>,
    func_name: Option<String>,
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
}

impl Case {
    fn problem(&self) -> Problem {
        let tests = self.tests.clone();
        Problem {
            id: self.name.clone(),
            question: self.prompt.clone(),
            starter: None,
            contest_date: None,
            before: if self.form == "method" { "from typing import *".to_string() } else { String::new() },
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
}

fn python() -> &'static str {
    // That of the system, which other users can start too.
    if PathBuf::from("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

fn sandbox() -> Sandbox {
    let limits = Limits { memory_bytes: 1 << 30, ..Limits::default() };
    Sandbox::new(python(), vec![env!("CARGO_BIN_EXE_sandboxed-python").into()], limits).unwrap()
}

#[test]
fn every_case_gets_its_verdict() {
    let sandbox = sandbox();
    let mut wrong = Vec::new();
    for line in CASES.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let verdict = sandbox.judge(&case.problem(), &case.response).unwrap();
        println!("{:50} {:14} {:.3} {}", case.name, verdict.reason, verdict.seconds, verdict.detail);
        let is_reason = verdict.reason.name() == case.reason || case.also.contains(&verdict.reason.to_string());
        let is_right = is_reason && verdict.passed() == (case.expect == "pass");
        if !is_right && case.expect != "either" {
            wrong.push(format!("{}: {verdict:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
