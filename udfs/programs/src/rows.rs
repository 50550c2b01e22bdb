//! Rows of the published benches.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::pickle;
use crate::problem::{Problem, Test, Tests};

/// The least time limit of HumanEval+ and LeetCodeDataset.
const SECONDS: f64 = 4.0;
/// The limit of each test of LiveCodeBench, as in its own runner.
const SECONDS_OF_TEST: f64 = 6.0;
/// The most bytes of a problem's unpacked private tests.
const UNPACKED: u64 = 1 << 30;
/// What LiveCodeBench imports before a program, in its order: later modules hide names of earlier ones.
const MODULES: &str = "string re datetime collections heapq bisect copy math random statistics itertools functools \
    operator io sys json builtins typing";

struct BenchRow(BTreeMap<String, Value>);

impl BenchRow {
    fn of(line: &str, needed: &[&str]) -> Result<Self, String> {
        let row: BTreeMap<String, Value> =
            serde_json::from_str(line).map_err(|error| format!("expected a JSON object, found: {error}"))?;
        let missing: Vec<_> = needed.iter().filter(|name| !row.contains_key(**name)).copied().collect();
        if missing.is_empty() { Ok(Self(row)) } else { Err(format!("the row lacks {}", missing.join(", "))) }
    }

    fn text(&self, name: &str) -> Result<String, String> {
        match self.0.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            other => Err(format!("expected a text in the field {name}, found {}", other.unwrap_or(&Value::Null))),
        }
    }

    /// A field that is a number in some files and a text in others.
    fn id(&self, name: &str) -> String {
        self.text(name).unwrap_or_else(|_| self.0.get(name).unwrap_or(&Value::Null).to_string())
    }
}

/// Returns the problem of a line of HumanEval+ (`HumanEvalPlus.jsonl`). What its calls return is unknown until
/// [`check_reference`](crate::Sandbox::check_reference).
///
/// # Errors
/// If a field is missing or has the wrong type. The error names it.
pub fn humaneval_plus(line: &str) -> Result<Problem, String> {
    let needed = ["task_id", "prompt", "entry_point", "canonical_solution", "base_input", "plus_input", "atol"];
    let row = BenchRow::of(line, &needed)?;
    let (prompt, entry_point) = (row.text("prompt")?, row.text("entry_point")?);
    let begin = prompt.find(&format!("def {entry_point}(")).unwrap_or(0);
    let solution = row.text("canonical_solution")?;
    Ok(Problem {
        id: row.id("task_id"),
        question: prompt.clone(),
        starter: None,
        contest_date: None,
        before: prompt[..begin].to_string(),
        reference: Some(format!("{prompt}{solution}")),
        prompt: Some(prompt),
        entry_point: Some(entry_point),
        tests: Tests::Calls { row: line.to_string(), expected: None },
        seconds: SECONDS,
    })
}

/// Returns the problem of a line of LeetCodeDataset.
///
/// # Errors
/// If a field is missing or has the wrong type. The error names it.
pub fn leetcode(line: &str) -> Result<Problem, String> {
    let needed = ["task_id", "problem_description", "starter_code", "prompt", "completion", "entry_point", "test"];
    let row = BenchRow::of(line, &needed)?;
    Ok(Problem {
        id: row.id("task_id"),
        question: row.text("problem_description")?,
        starter: Some(row.text("starter_code")?),
        contest_date: None,
        before: row.text("prompt")?,
        prompt: None,
        entry_point: Some(row.text("entry_point")?),
        reference: Some(row.text("completion")?),
        tests: Tests::Check { test: row.text("test")? },
        seconds: SECONDS,
    })
}

/// Returns the problem of a line of LiveCodeBench (`code_generation_lite`). It has no reference program.
///
/// # Errors
/// If a field is missing or has the wrong type, or if private tests are not text. The error names it.
pub fn livecodebench(line: &str) -> Result<Problem, String> {
    let needed =
        ["question_id", "question_content", "starter_code", "public_test_cases", "private_test_cases", "metadata"];
    let row = BenchRow::of(line, &needed)?;
    let starter = row.text("starter_code")?;
    let metadata: BTreeMap<String, Value> = parsed("metadata", &row.text("metadata")?)?;
    let entry_point = metadata.get("func_name").and_then(Value::as_str).map(str::to_string);
    let mut tests: Vec<Test> = parsed("public_test_cases", &row.text("public_test_cases")?)?;
    tests.extend(private_tests(&row.text("private_test_cases")?)?);
    let modules = || MODULES.split(' ');
    let all = modules().map(|name| format!("from {name} import *\n"));
    let imports = all.chain(modules().map(|name| format!("import {name}\n"))).collect();
    Ok(Problem {
        id: row.id("question_id"),
        question: row.text("question_content")?,
        starter: (!starter.is_empty()).then_some(starter),
        contest_date: row.text("contest_date").ok(),
        before: imports,
        prompt: None,
        tests: if entry_point.is_some() { Tests::Method { tests } } else { Tests::Stdin { tests } },
        entry_point,
        reference: None,
        seconds: SECONDS_OF_TEST,
    })
}

/// JSON text, or base64 of zlib of a pickle of JSON text.
fn private_tests(field: &str) -> Result<Vec<Test>, String> {
    const NAME: &str = "private_test_cases";
    if field.trim_start().starts_with('[') {
        return parsed(NAME, field);
    }
    let packed = BASE64_STANDARD
        .decode(field.trim())
        .map_err(|error| format!("the field {NAME} is not valid base64: {error}"))?;
    let mut unpacked = Vec::new();
    let mut reader = flate2::read::ZlibDecoder::new(packed.as_slice()).take(UNPACKED + 1);
    reader
        .read_to_end(&mut unpacked)
        .map_err(|error| format!("the field {NAME} is not a valid zlib stream: {error}"))?;
    if unpacked.len() as u64 > UNPACKED {
        return Err(format!("the field {NAME} unpacks to more than {UNPACKED} bytes"));
    }
    let text =
        pickle::text(&unpacked).map_err(|problem| format!("the pickle in the field {NAME} is refused: {problem}"))?;
    parsed(NAME, &text)
}

fn parsed<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("the JSON in the field {name} does not have the expected structure: {error}"))
}
