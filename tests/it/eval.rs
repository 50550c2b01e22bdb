//! `asap eval`: the same model in a folder and on a server, programs, budgets, kills, comparisons and bad input.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use asap_lm::Message;
use asap_lm::generate::{Finish, Generator};
use asap_lm::sampling::Sampling;
use asap_test_support::{Call, Reply, Server};
use serde_json::{Value, json};

use crate::common::{Finished, Workplace, root};
use crate::runs::place::Running;
use crate::runs::seeded::Dice;

const MATH: [&str; 4] = ["eval", "--bench", "gsm8k", "--data"];

fn problems(workplace: &Workplace, number: usize) {
    let line = |n: usize| {
        json!({ "question": format!("What is {n} + 25?"), "answer": format!("Add.\n#### {}", n + 25) }).to_string()
    };
    workplace.write("test.jsonl", (0..number).map(|n| line(n) + "\n").collect::<String>());
}

/// Serves the small model as an endpoint does.
fn served() -> Server {
    let generator = Mutex::new(Generator::load(&root().join("data/model"), &std::sync::Arc::default()).unwrap());
    Server::start(move |call: &Call| {
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
    })
}

/// A reply of the model m after 50 tokens.
fn reply(message: Value, finish: &str) -> Reply {
    Reply::Json(json!({
        "model": "m",
        "choices": [{ "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 20, "completion_tokens": 50 },
    }))
}

fn said(content: impl Into<Value>) -> Reply {
    reply(json!({ "content": content.into() }), "stop")
}

/// A server without a list of models that replies this to each question.
fn scripted(replies: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |call: &Call| match call.head.starts_with("GET") {
        true => Reply::error(404, "no such page"),
        false => replies(call.prompt()),
    })
}

/// Evaluates the model m of a server on `test.jsonl`.
fn ask(workplace: &Workplace, server: &Server, to: &str, more: &[&str]) -> Finished {
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
    let finished = workplace.run([&MATH[..], &budgets, &endpoint, &["--format", "json"]].concat());
    let summary: Value = serde_json::from_str(finished.ok().lines().last().unwrap()).unwrap();
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
fn chains_come_in_a_field_in_tags_or_without_their_first_tag() {
    let server = scripted(|prompt| match prompt {
        text if text.contains("What is 0 +") => {
            reply(json!({ "reasoning_content": "r", "content": "\\boxed{25}" }), "stop")
        }
        text if text.contains("What is 1 +") => {
            reply(json!({ "content": "<think>\nr\n</think>\n\n\\boxed{26}" }), "stop")
        }
        text if text.contains("What is 2 +") => reply(json!({ "content": "r\n</think>\n\n\\boxed{27}" }), "stop"),
        // Cut off in the chain, whose first tag is in the prompt.
        text if text.contains("What is 3 +") => reply(json!({ "content": "So it may be \\boxed{28}, or" }), "length"),
        text if text.contains("What is 4 +") => {
            reply(json!({ "reasoning_content": "\\boxed{29}", "content": null }), "length")
        }
        _ => Reply::error(404, "no such page"),
    });
    let workplace = Workplace::new();
    problems(&workplace, 5);
    let finished = ask(&workplace, &server, "out", &[]);
    let table = finished.ok();
    assert!(table.contains("60.0 %"), "{table}");
    let found = rows(&workplace, "out", "response, correct, why");
    for (row, response) in found.iter().zip([
        "<think>\nr\n</think>\n\n\\boxed{25}",
        "<think>\nr\n</think>\n\n\\boxed{26}",
        "<think>\nr\n</think>\n\n\\boxed{27}",
        "<think>\nSo it may be \\boxed{28}, or",
        "<think>\n\\boxed{29}",
    ]) {
        assert_eq!(row["response"], response);
    }
    let whys: Vec<_> = found.iter().map(|row| row["why"].as_str().unwrap()).collect();
    assert_eq!(whys, ["ok", "ok", "ok", "no_answer", "no_answer"]);
}

#[test]
fn a_killed_evaluation_resumes_and_pays_again_only_for_requests_in_flight() {
    const PROBLEMS: usize = 60;
    let workplace = Workplace::new();
    problems(&workplace, PROBLEMS);
    let server = scripted(|_| Reply::After(Duration::from_millis(60), Box::new(said("\\boxed{25}"))));
    let url = server.base_url();
    let asked =
        [&MATH[..], &["test.jsonl", "--endpoint", &url, "--model", "m", "--concurrency", "4", "--to", "out"]].concat();
    let (mut dice, kills) = (Dice::new(7, 0), 20);
    for _ in 0..kills {
        let (before, calls) = (server.count(), dice.below(8) as usize);
        let mut child = workplace.command(&asked).stderr(std::process::Stdio::null()).spawn().unwrap();
        while server.count() < before + calls && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(dice.below(100)));
        child.kill().unwrap();
        child.wait().unwrap();
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
        let server = scripted(|_| Reply::After(Duration::from_millis(300), Box::new(said("\\boxed{25}"))));
        let start = |temperature| {
            let url = server.base_url();
            let asked = ["test.jsonl", "--endpoint", &url, "--model", "m", "--to", "out", "--temperature", temperature];
            Running::start(workplace.command([&MATH[..], &asked].concat()))
        };
        let mut ended = [start("0"), start(other)].map(Running::finish);
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
    let numbered = |prompt: &str| -> u64 {
        let number = prompt.split("What is ").nth(1).unwrap().split(' ').next().unwrap();
        number.parse().unwrap()
    };
    let say = move |right: fn(u64) -> bool| {
        scripted(move |prompt| {
            let n = numbered(prompt);
            said(format!("\\boxed{{{}}}", if right(n) { n + 25 } else { 1 }))
        })
    };
    let (a, b) = (say(|n| n % 4 == 0), say(|n| n % 4 == 0 || n < 20));
    for (server, to) in [(&a, "a"), (&b, "b")] {
        ask(&workplace, server, to, &[]).ok();
    }
    let finished = workplace.run(["eval", "--compare", "a", "b", "--format", "json"]);
    let compared: Value = serde_json::from_str(finished.ok().lines().last().unwrap()).unwrap();
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

#[test]
fn programs_are_graded_by_their_tests() {
    let workplace = Workplace::new();
    let problem = |id: u64, name: &str, body: &str| {
        json!({ "task_id": format!("Own/{id}"), "entry_point": name, "prompt": format!("def {name}(a, b):\n    \"\"\"{name} of two numbers.\"\"\"\n"),
            "canonical_solution": format!("    {body}\n"), "base_input": [[1, 2], [3, 4]], "plus_input": [[-5, 5]], "atol": 0 })
        .to_string()
    };
    let lines = [
        problem(0, "total", "return a + b"),
        problem(1, "difference", "return a - b"),
        problem(2, "broken", "return nothing"),
    ];
    workplace.write("own.jsonl", lines.join("\n"));
    let server = scripted(|prompt| match prompt.contains("total") {
        true => said("<think>x</think>\n```python\ndef total(a, b):\n    return a + b\n```"),
        false => said("<think>x</think>\n```python\ndef difference(a, b):\n    return b - a\n```"),
    });
    let url = server.base_url();
    let asked =
        ["eval", "--bench", "humaneval+", "--data", "own.jsonl", "--endpoint", &url, "--model", "m", "--to", "out"];
    let finished = workplace.run(asked);
    assert!(
        finished.ok().contains("50.0 %") && finished.stdout.contains("Own/2 (runtime_error)"),
        "{}",
        finished.stdout
    );
    let found = rows(&workplace, "out", "id, correct, why, answer");
    assert_eq!(found.len(), 2, "the problem whose reference program fails is not asked");
    assert_eq!((&found[0]["correct"], &found[0]["why"]), (&json!(true), &json!("ok")));
    assert!(found[1]["why"].as_str().unwrap().starts_with("wrong_answer: call 1"), "{}", found[1]);
    assert!(found[1]["answer"].as_str().unwrap().contains("def difference"));

    // Another user than root, in a user namespace.
    let mut other = Command::new("unshare");
    other.args(["--user", "--map-user=1000", "--map-group=1000", env!("CARGO_BIN_EXE_asap")]);
    other.args(asked).current_dir(workplace.path(".")).env("HOME", workplace.path("."));
    let other = Finished::of(&mut other);
    match other.stderr.contains("unshare") {
        true => println!("skipped: this machine has no user namespaces: {}", other.stderr),
        false => assert!(other.ok().contains("50.0 %"), "{}", other.stdout),
    }

    // A Python that is missing, and one that lacks what the tests import, cost no call.
    let calls = server.count();
    workplace.run([&asked[..], &["--python", "no-python"]].concat()).ends(2, &["no-python"]);
    let needs = json!({ "task_id": "needs", "problem_description": "p", "starter_code": "class Solution:\n",
        "prompt": "import a_module_that_is_missing\n", "completion": "class Solution:\n    def f(self):\n        return 1\n",
        "entry_point": "Solution().f", "test": "def check(candidate):\n    assert candidate() == 1\n" });
    workplace.write("needs.jsonl", needs.to_string());
    let needy = ["eval", "--bench", "leetcode", "--data", "needs.jsonl"];
    let endpoint = ["--endpoint", &url, "--model", "m", "--to", "other"];
    workplace.run([&needy[..], &endpoint].concat()).ends(2, &["a_module_that_is_missing"]);
    assert_eq!(server.count(), calls);
}

#[test]
fn bad_input_is_refused_before_a_call() {
    let workplace = Workplace::new();
    problems(&workplace, 3);
    let server = served();
    let url = server.base_url();
    workplace.write("other.jsonl", r#"{"problem": "p", "solution": "s"}"#);
    workplace.write("empty.jsonl", "");
    let twice = json!({ "problem": "p", "answer": "1", "unique_id": "one" }).to_string();
    workplace.write("twice.jsonl", format!("{twice}\n{twice}\n"));
    let lcb = json!({ "question_id": "q", "question_content": "c", "starter_code": "", "public_test_cases": "[]",
        "private_test_cases": "[]", "metadata": "{}", "contest_date": "2024-01-01" });
    workplace.write("untested.jsonl", lcb.to_string());
    workplace.write("table/x.jsonl", r#"{"a": 1}"#);
    for (flags, expected) in [
        ("gsm8k --data other.jsonl", "found no field question and answer; it has problem, solution"),
        ("math500 --data other.jsonl", "found no field answer"),
        ("gsm8k --data empty.jsonl", "empty.jsonl has no problems"),
        ("math500 --data twice.jsonl", "line 2: expected a problem of math500, found one for the second time"),
        ("gsm8k --data missing.jsonl", "cannot read missing.jsonl"),
        ("livecodebench-v1-v3 --data untested.jsonl", "found no tests"),
        ("gsm8k --data test.jsonl --budget 4096", "does not fit the window of m, 4,096"),
        ("gsm8k --data test.jsonl --samples 2", "set a temperature above 0"),
        ("gsm8k --data test.jsonl --top-p 0", "--top-p"),
        ("humaneval+ --data test.jsonl --python no-python", "lacks task_id"),
    ] {
        let line = format!("eval --to out --endpoint {url} --model m --bench {flags}");
        workplace.run(line.split(' ')).ends(2, &[expected]);
    }
    let asked = [&MATH[..], &["test.jsonl", "--to", "out"]].concat();
    for (flags, code, expected) in [
        (vec!["--endpoint", &url, "--model", "other"], 2, "serves no model other; it serves m"),
        (vec!["--endpoint", "http://127.0.0.1:9/v1", "--model", "m"], 75, "127.0.0.1:9"),
        (vec!["--model", "no/such/folder"], 1, "no/such/folder"),
        (vec!["--model", "small", "--budget", "1000000"], 2, "does not fit the window of small"),
    ] {
        workplace.run([&asked[..], &flags].concat()).ends(code, &[expected]);
    }
    assert_eq!(posts(&server), 0, "nothing was paid");
    assert!(!Path::new(&workplace.path("out/_delta_log")).exists());
}

#[test]
fn an_endpoint_that_gives_too_little_ends_the_evaluation_after_one_call() {
    let workplace = Workplace::new();
    problems(&workplace, 20);
    for (usage, model, expected) in [
        (Value::Null, "m", "reports no usage.completion_tokens"),
        (json!({ "prompt_tokens": 5, "completion_tokens": 5 }), "another", "answers with the model another, not m"),
    ] {
        let choices = json!([{ "message": { "content": "\\boxed{1}" }, "finish_reason": "stop" }]);
        let reply = json!({ "model": model, "usage": usage, "choices": choices });
        let server = scripted(move |_| Reply::Json(reply.clone()));
        ask(&workplace, &server, &format!("out-{model}"), &[]).ends(1, &[expected]);
        assert_eq!(posts(&server), 1);
    }
}

/// A file system that is full fails the evaluation with one sentence; what was stored before stays.
#[test]
fn a_full_disk_ends_the_evaluation_with_its_name() {
    let workplace = Workplace::new();
    problems(&workplace, 5);
    let server = scripted(|_| said("\\boxed{25}"));
    // The limit of a file's size acts like a disk without room for it.
    let eval = format!("asap eval --bench gsm8k --data test.jsonl --endpoint {} --model m --to out", server.base_url());
    workplace.shell(&format!("trap '' XFSZ; ulimit -f 0; {eval}")).ends(1, &["out", "File too large"]);
    assert_eq!(posts(&server), 0, "nothing was paid");
    workplace.shell(&eval).ok();
}

#[test]
fn a_limit_of_calls_and_a_refused_key_end_the_evaluation_for_their_own_reason() {
    let workplace = Workplace::new();
    problems(&workplace, 6);
    let server = scripted(|_| said("\\boxed{25}"));
    ask(&workplace, &server, "out", &["--set", "asap.anchor.max_calls=2"])
        .ends(1, &["4 responses missing", "max_calls allows 2 requests"]);

    let denying = Server::start(|_| Reply::error(401, "wrong key"));
    ask(&workplace, &denying, "no", &[]).ends(1, &["wrong key"]);
    assert_eq!(posts(&denying), 1);
}

#[test]
fn failed_calls_are_not_counted_and_asked_for_again_if_that_helps() {
    let workplace = Workplace::new();
    problems(&workplace, 10);
    for (status, code) in [(503, 75), (400, 1)] {
        let server = scripted(move |prompt| match prompt.contains("What is 7 +") {
            true => Reply::error(status, "this prompt is not accepted"),
            false => said("\\boxed{25}"),
        });
        let no_retries = ["--set", "asap.anchor.max_retries=0"];
        let failed = ask(&workplace, &server, "out", &no_retries).ends(code, &["1 response missing", "not accepted"]);
        assert_eq!(failed.stderr.contains("Run the same command"), code == 75, "{}", failed.stderr);
    }
    let found = workplace.rows("SELECT why, correct, response FROM 'out' WHERE response IS NULL");
    assert!(found.len() == 1 && found[0]["why"].as_str().unwrap().contains("not accepted"), "{found:?}");
}
