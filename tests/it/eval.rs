//! `asap eval`: the same model in a folder and on a server, programs, budgets, kills and comparisons.

use std::sync::Mutex;
use std::time::Duration;

use asap_lm::Message;
use asap_lm::generate::{Finish, Generator};
use asap_lm::sampling::Sampling;
use asap_test_support::{Call, Reply, Server};
use serde_json::{Value, json};

use crate::common::{Finished, Workplace, root};
use crate::runs::place::{Running, wait_until};
use crate::runs::seeded::Dice;

const MATH: [&str; 4] = ["eval", "--bench", "gsm8k", "--data"];

/// Writes problems to `test.jsonl`: problem `n` is the sum of `n` and 25.
pub(crate) fn problems(workplace: &Workplace, number: usize) {
    let line = |n: usize| {
        json!({ "question": format!("What is {n} + 25?"), "answer": format!("Add.\n#### {}", n + 25) }).to_string()
    };
    workplace.write("test.jsonl", (0..number).map(|n| line(n) + "\n").collect::<String>());
}

/// Serves the small model as an endpoint does.
fn served() -> Server {
    let generator = Mutex::new(Generator::load(&root().join("data/model"), &std::sync::Arc::default()).unwrap());
    Server::start(move |call: &Call| replies_of(&generator, call))
}

/// What an endpoint replies that serves this model.
pub(crate) fn replies_of(generator: &Mutex<Generator>, call: &Call) -> Reply {
    if call.head.starts_with("GET") {
        return Reply::Json(json!({ "data": [{ "id": "m", "max_model_len": 4096 }] }));
    }
    let number = |name: &str| call.body[name].as_f64().unwrap();
    let sampling = Sampling {
        temperature: number("temperature"),
        top_p: number("top_p"),
        seed: 1,
        max_tokens: number("max_tokens") as usize,
        stop: vec![],
    };
    let message = Message { role: "user", content: call.prompt() };
    let mut generator = generator.lock().unwrap();
    let (prompt, mut texts) = (generator.prompt(&[message], true), Vec::new());
    let mut asked = Some(((), prompt, sampling));
    generator.serve(|_, _| asked.take(), |()| true, |(), text| texts.push(text.unwrap()));
    let text = texts.remove(0);
    let finish = if text.finish == Finish::Length { "length" } else { "stop" };
    Reply::Json(json!({
        "model": "m",
        "choices": [{ "message": { "role": "assistant", "content": text.text }, "finish_reason": finish }],
        "usage": { "prompt_tokens": text.tokens_in, "completion_tokens": text.tokens_out },
    }))
}

/// A reply of the model m after this many tokens.
pub(crate) fn said(content: &str, tokens: u64) -> Reply {
    Reply::Json(json!({
        "model": "m",
        "choices": [{ "message": { "content": content }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 20, "completion_tokens": tokens },
    }))
}

/// A server without a list of models that replies this to each question.
fn scripted(replies: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |call: &Call| match call.head.starts_with("GET") {
        true => Reply::error(404, "no such page"),
        false => replies(call.prompt()),
    })
}

/// A server that is right about the problems that `is_right` names, after slightly more than this many tokens.
pub(crate) fn answering(is_right: impl Fn(u64) -> bool + Send + Sync + 'static, tokens: u64) -> Server {
    scripted(move |prompt| {
        let n: u64 = prompt.split("What is ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        said(&format!("\\boxed{{{}}}", if is_right(n) { n + 25 } else { 1 }), tokens + n % 3)
    })
}

/// Evaluates the model m of a server on `test.jsonl`.
pub(crate) fn ask(workplace: &Workplace, server: &Server, to: &str, more: &[&str]) -> Finished {
    let asked = ["test.jsonl", "--endpoint", &server.base_url(), "--model", "m", "--to", to];
    workplace.run([&MATH[..], &asked, more].concat())
}

/// The number of requests that are paid.
fn posts(server: &Server) -> usize {
    server.calls().iter().filter(|call| call.head.starts_with("POST")).count()
}

fn rows(workplace: &Workplace, of: &str, columns: &str) -> Vec<Value> {
    workplace.rows(&format!("SELECT {columns} FROM '{of}' ORDER BY budget, id, sample"))
}

const SAME: &str = "id, sample, budget, response, finish_reason, answer, gold, correct, why, tokens";

#[test]
fn a_folder_and_a_server_of_the_same_model_give_the_same_rows() {
    let (workplace, server) = (Workplace::new(), served());
    problems(&workplace, 12);
    let budgets = ["test.jsonl", "--budget", "16,48,96"];
    let folder = ["--model", "small", "--to", "folder"];
    let url = server.base_url();
    let endpoint = ["--endpoint", &url, "--model", "m", "--to", "endpoint"];
    workplace.run([&MATH[..], &budgets, &folder].concat()).ok();
    let summary = workplace.run([&MATH[..], &budgets, &endpoint, &["--format", "json"]].concat()).json();
    let found = rows(&workplace, "folder", SAME);
    assert_eq!(found.len(), 36);
    assert_eq!(rows(&workplace, "endpoint", SAME), found);

    // What separate runs give, and one request for responses that end within the smallest budget.
    for budget in [16, 48, 96_u64] {
        let (to, budget_text) = (format!("alone-{budget}"), budget.to_string());
        workplace
            .run([&MATH[..], &["test.jsonl", "--budget", &budget_text, "--model", "small", "--to", &to]].concat())
            .ok();
        let alone = rows(&workplace, &to, SAME);
        let of_budget: Vec<_> = found.iter().filter(|row| row["budget"] == budget).cloned().collect();
        assert_eq!(alone, of_budget, "{budget}");
    }
    let calls = server.count();
    let cut =
        |budget: u64| found.iter().filter(|row| row["budget"] == budget && row["finish_reason"] == "length").count();
    assert_eq!(calls - 1, 12 + cut(16) + cut(48), "one request for the list of models");

    // The same command grades again, without a call.
    workplace.run([&MATH[..], &budgets, &endpoint].concat()).ok();
    assert_eq!(server.count(), calls + 1);
    assert_eq!(rows(&workplace, "endpoint", SAME), found);
    // Also when the endpoint is down.
    drop(server);
    workplace.run([&MATH[..], &budgets, &endpoint].concat()).ok();
    assert_eq!(rows(&workplace, "endpoint", SAME), found);
    let at = &summary["budgets"][2];
    let correct = found.iter().filter(|row| row["budget"] == 96 && row["correct"] == true).count();
    assert_eq!((at["budget"].clone(), at["problems"].clone()), (json!(96), json!(12)));
    assert!((at["accuracy"]["value"].as_f64().unwrap() - correct as f64 / 12.0).abs() < 1e-9);
}

#[test]
fn a_killed_evaluation_resumes_and_pays_again_only_for_requests_in_flight() {
    const PROBLEMS: usize = 60;
    let workplace = Workplace::new();
    problems(&workplace, PROBLEMS);
    let server = scripted(|_| Reply::After(Duration::from_millis(60), Box::new(said("\\boxed{25}", 50))));
    let url = server.base_url();
    let asked =
        [&MATH[..], &["test.jsonl", "--endpoint", &url, "--model", "m", "--concurrency", "4", "--to", "out"]].concat();
    let (mut dice, kills) = (Dice::new(7, 0), 20);
    for _ in 0..kills {
        let (before, calls) = (server.count(), dice.below(8) as usize);
        let mut killed = Running::start(workplace.command(&asked));
        wait_until("the calls", || server.count() >= before + calls || killed.is_over());
        std::thread::sleep(Duration::from_millis(dice.below(100)));
        killed.kill();
    }
    workplace.run(&asked).ok();
    let paid = posts(&server);
    assert!((PROBLEMS..=PROBLEMS + 4 * kills).contains(&paid), "{paid} calls for {PROBLEMS} problems");
    assert_eq!(rows(&workplace, "out", "id").len(), PROBLEMS);
    // The killed commands' times are parts of the sum.
    let table = workplace.run(["eval", "--table", "m=out", "--format", "json"]).json();
    assert!(table["cells"][0]["seconds_per_problem"].as_f64().unwrap() > 0.0, "{table}");
    assert!(std::fs::read_dir(workplace.path("out/.asap/clock")).unwrap().count() > 1);
}

#[test]
fn two_evaluations_into_one_folder_write_each_row_once_or_one_is_refused() {
    for (other, codes) in [("0", [0, 0]), ("0.6", [0, 1])] {
        let workplace = Workplace::new();
        problems(&workplace, 8);
        let server = scripted(|_| Reply::After(Duration::from_millis(300), Box::new(said("\\boxed{25}", 50))));
        let start = |temperature| {
            let url = server.base_url();
            let asked = ["test.jsonl", "--endpoint", &url, "--model", "m", "--to", "out", "--temperature", temperature];
            Running::start(workplace.command([&MATH[..], &asked].concat()))
        };
        let mut ended = [start("0"), start(other)].map(|mut run| run.finish());
        ended.sort_by_key(|ended| ended.code);
        assert_eq!(ended.each_ref().map(|ended| ended.code), codes, "{ended:?}");
        assert_eq!(rows(&workplace, "out", "id").len(), 8);
        assert!(codes == [0, 0] || ended[1].stderr.contains("choose another folder"), "{ended:?}");
    }
}

#[test]
fn two_evaluations_are_compared_problem_by_problem() {
    let workplace = Workplace::new();
    problems(&workplace, 40);
    let (a, b) = (answering(|n| n % 4 == 0, 50), answering(|n| n % 4 == 0 || n < 20, 50));
    for (server, to) in [(&a, "a"), (&b, "b")] {
        ask(&workplace, server, to, &[]).ok();
    }
    let compared = workplace.run(["eval", "--compare", "a", "b", "--format", "json"]).json();
    let at = &compared["budgets"][0];
    assert_eq!((at["only_a"].as_u64(), at["only_b"].as_u64()), (Some(0), Some(15)));
    assert!((at["accuracy"]["value"].as_f64().unwrap() - 0.375).abs() < 1e-9);
    assert!((at["p_value"].as_f64().unwrap() - 2.0 * 0.5_f64.powi(15)).abs() < 1e-9);
    assert!(at["verdict"].as_str().unwrap().contains("B is more accurate than A by 37.5 points (p < 0.001)"), "{at}");
    assert!(at["verdict"].as_str().unwrap().contains("no difference in tokens"), "{at}");
    let table = workplace.run(["eval", "--compare", "a", "b"]);
    assert!(table.ok().contains("+37.5"), "{}", table.stdout);

    // Samples of one model do not make it better, and other sampling needs another folder.
    let sampled = |to: &str| ask(&workplace, &a, to, &["--samples", "3", "--temperature", "0.6"]);
    sampled("three").ok();
    let same = workplace.run(["eval", "--compare", "a", "three"]);
    assert!(same.ok().contains("no difference in accuracy is shown (+0.0 points, p = 1.000)"), "{}", same.stdout);
    sampled("a").ends(2, &["a has asap.eval with samples 1, not 3; temperature 0.0, not 0.6: choose another folder"]);

    problems(&workplace, 39);
    ask(&workplace, &a, "fewer", &[]).ok();
    workplace
        .run(["eval", "--compare", "a", "fewer"])
        .ends(2, &["different problems: 1 only in A, such as gsm8k/39 with the answer 64. Evaluate"]);
    workplace.run(["eval", "--compare", "a", "nothing"]).ends_in(&[1, 2], &["nothing is not an evaluation"]);
}
