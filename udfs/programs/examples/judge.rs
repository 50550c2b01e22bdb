//! Judges responses to the problems of a bench; without responses, the bench's own programs.
//!
//!     cargo run --release -p asap-programs --example judge -- humaneval_plus HumanEvalPlus.jsonl [responses.jsonl]
//!
//! A response is a line `{"id": …, "response": …}`. Prints one line of JSON for each verdict. `PYTHON` names the Python.

use std::error::Error;
use std::io::Write;
use std::{env, fs, io};

use asap_programs::{COMMAND, Limits, Sandbox, Verdict, humaneval_plus, leetcode, livecodebench};
use rayon::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Response {
    id: String,
    response: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == COMMAND) {
        return Err(asap_programs::enter(&arguments[1..]).into());
    }
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [bench, file, responses @ ..] = arguments.as_slice() else {
        return Err("expected a bench and its file".into());
    };
    let read = match bench.as_str() {
        "humaneval_plus" => humaneval_plus,
        "leetcode" => leetcode,
        _ => livecodebench,
    };
    let mut problems = fs::read_to_string(file)?.lines().map(read).collect::<Result<Vec<_>, _>>()?;
    let python = env::var("PYTHON").unwrap_or_else(|_| "python3".to_string());
    let sandbox = Sandbox::new(&python, vec![env::current_exe()?.into(), COMMAND.into()], Limits::default())?;
    let verdicts: Vec<Option<Verdict>> =
        problems.par_iter_mut().map(|problem| sandbox.check_reference(problem)).collect::<Result<_, _>>()?;
    let [responses] = responses else {
        let mut judged =
            problems.iter().zip(&verdicts).filter_map(|(problem, verdict)| Some((problem, verdict.as_ref()?)));
        return judged.try_for_each(|(problem, verdict)| print(&problem.id, verdict));
    };
    let responses: Vec<Response> =
        fs::read_to_string(responses)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let problem_of = |id: &str| problems.iter().find(|problem| problem.id == id).ok_or(format!("no problem {id}"));
    let asked = responses.iter().map(|given| problem_of(&given.id)).collect::<Result<Vec<_>, _>>()?;
    let judged = asked.par_iter().zip(&responses).map(|(problem, given)| sandbox.judge(problem, &given.response));
    let verdicts: Vec<Verdict> = judged.collect::<Result<_, _>>()?;
    asked.iter().zip(&verdicts).try_for_each(|(problem, verdict)| print(&problem.id, verdict))
}

fn print(id: &str, verdict: &Verdict) -> Result<(), Box<dyn Error>> {
    let line = serde_json::json!({
        "id": id, "reason": verdict.reason.name(), "detail": verdict.detail, "seconds": verdict.seconds,
    });
    Ok(writeln!(io::stdout(), "{line}")?)
}
