//! Judges responses to the problems of a bench; without responses, the bench's own programs.
//!
//!     cargo run --release -p asap-programs --example judge -- humaneval_plus HumanEvalPlus.jsonl [responses.jsonl]
//!
//! A response is a line `{"id": …, "response": …}`. Prints one line of JSON for each verdict. `PYTHON` names the Python.

use std::error::Error;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, io, thread};

use asap_programs::{
    COMMAND, Limits, Problem, Sandbox, SandboxError, Verdict, humaneval_plus, leetcode, livecodebench,
};
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
    let places: Vec<_> = problems.iter_mut().map(Mutex::new).collect();
    let locked = |place: usize| places[place].lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let verdicts = on_all_cores(places.len(), |place| sandbox.check_reference(&mut locked(place)))?;
    let [responses] = responses else {
        return verdicts.iter().zip(&problems).try_for_each(|(verdict, problem)| match verdict {
            Some(verdict) => print(&problem.id, verdict),
            None => Ok(()),
        });
    };
    let responses: Vec<Response> =
        fs::read_to_string(responses)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let problem_of = |id: &str| problems.iter().find(|problem| problem.id == id).ok_or(format!("no problem {id}"));
    let asked: Vec<&Problem> = responses.iter().map(|given| problem_of(&given.id)).collect::<Result<_, _>>()?;
    let verdicts = on_all_cores(asked.len(), |place| sandbox.judge(asked[place], &responses[place].response))?;
    verdicts.iter().zip(&asked).try_for_each(|(verdict, problem)| print(&problem.id, verdict))
}

fn print(id: &str, verdict: &Verdict) -> Result<(), Box<dyn Error>> {
    let line = serde_json::json!({
        "id": id, "reason": verdict.reason.name(), "detail": verdict.detail, "seconds": verdict.seconds,
    });
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Calls `work` with 0 to `count`, and returns the results in this order.
fn on_all_cores<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, SandboxError> + Sync,
) -> Result<Vec<T>, Box<dyn Error>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= count {
                        return;
                    }
                    let result = (place, work(place));
                    results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|(place, _)| *place);
    Ok(results.into_iter().map(|(_, result)| result).collect::<Result<_, _>>()?)
}
