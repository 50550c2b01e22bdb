//! Endpoints that accept requests only in another form, and endpoints without a connection, in all commands.

use serde_json::{Value, json};

use super::{arguments, ask, corpus, model, paid, run, sql, take_answers};
use crate::common::{Finished, Workplace};
use asap_test_support::{Call, Reply, Server, Vllm};

/// A model that accepts neither `max_tokens` nor a temperature.
fn picky(call: &Call) -> Reply {
    let refused = |field: &str, more: &str| {
        let message = format!("Unsupported parameter: '{field}' is not supported with this model.{more}");
        Reply::error(400, &message)
    };
    match (&call.body["max_tokens"], &call.body["temperature"]) {
        (Value::Null, Value::Null) => model(call),
        (Value::Null, _) => refused("temperature", ""),
        _ => refused("max_tokens", " Use 'max_completion_tokens' instead."),
    }
}

fn status(workplace: &Workplace, output: &str) -> Value {
    workplace.run(["table", "status", output, "--format", "json"]).json()
}

#[test]
fn a_picky_endpoint_answers_all_rows_and_their_commit_records_its_sampling() {
    let workplace = corpus(12);
    let server = Server::start(picky);
    let finished = run(&workplace, "a", &server, &[]);
    let summary = finished.json();
    assert_eq!((summary["rows_out"].as_u64(), paid(&summary)), (Some(12), (24, 0)));
    let said = "so asap sends max_completion_tokens in place of max_tokens, no temperature";
    assert_eq!(finished.stderr.matches("refuses requests").count(), 1, "{}", finished.stderr);
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    assert_eq!(status(&workplace, "a")["endpoint_defaults"], json!(["temperature"]));
    let shown = workplace.run(["table", "status", "a"]);
    assert!(shown.ok().contains("sampling  the endpoint's default temperature"), "{}", shown.stdout);

    // Rows from stored answers have the same sampling, and an endpoint is not needed.
    take_answers(&workplace, "a", "b");
    drop(server);
    assert_eq!(paid(&workplace.run(arguments("asap", "b", &[])).json()), (0, 24));
    assert_eq!(status(&workplace, "b")["endpoint_defaults"], json!(["temperature"]));

    let server = Server::start(picky);
    let count = ["SELECT count(ai_complete(question)) AS n FROM corpus"];
    assert_eq!(sql(&workplace, &server, &[], &count).ok(), "n\n12\n");

    // Settings say it at once.
    let forced =
        ["asap.anchor.send_max_completion_tokens=true", "asap.anchor.send_temperature=false", "asap.anchor.model=new"];
    let server = Server::start(picky);
    let finished = run(&workplace, "c", &server, &forced);
    assert_eq!((finished.json()["rows_out"].as_u64(), server.count()), (Some(12), 24));
    assert!(!finished.stderr.contains("refuses"), "{}", finished.stderr);
}

#[test]
fn a_small_window_rejects_only_the_row_that_does_not_fit() {
    const SERVED: Vllm = Vllm { model: "test-model", window: 900, parses_reasoning: false };
    let workplace = corpus(8);
    let long = "SELECT 'Long?' AS question, repeat(E'It is 7.\\n\\n', 800) AS cot, 'It is 7.' AS answer";
    workplace.copy(long, "in/long.parquet");
    let serve = |call: &Call| match model(call) {
        Reply::Text(text) => SERVED.reply(call, &text),
        other => other,
    };
    let server = Server::start(serve);
    let default = ["asap.anchor.max_tokens=8192"];
    let finished = run(&workplace, "out", &server, &default);
    let summary = finished.json();
    assert_eq!((summary["rows_out"].as_u64(), summary["rows_rejected"].as_u64()), (Some(8), Some(1)));
    assert!(finished.stderr.contains("limits below its window of 900 tokens"), "{}", finished.stderr);
    let rejects = workplace.rows("SELECT status, error FROM 'out/.asap/rejects'");
    assert_eq!(rejects[0]["status"], "too_long", "{rejects:?}");
    // The key of an answer is what the pipeline asked for, so a larger window changes nothing.
    take_answers(&workplace, "out", "again");
    let larger = Server::start(move |call| match model(call) {
        Reply::Text(text) => Vllm { window: 9000, ..SERVED }.reply(call, &text),
        other => other,
    });
    let summary = run(&workplace, "again", &larger, &default).json();
    assert_eq!((summary["rows_out"].as_u64(), paid(&summary).0), (Some(9), 1));
}

#[test]
fn a_thought_that_a_parser_took_for_all_of_the_answer_is_named() {
    let workplace = corpus(1);
    let served = Vllm { model: "test-model", window: 4096, parses_reasoning: true };
    let server = Server::start(move |call| served.reply(call, "Add the number."));
    run(&workplace, "out", &server, &[]).ends(3, &["none of 1 rows"]);
    let rejects = workplace.rows("SELECT status, error FROM 'out/.asap/rejects'");
    assert!(rejects[0]["error"].as_str().unwrap().contains("reasoning parser"), "{rejects:?}");
}

/// Checks that a command ends with one sentence that the same command may follow later.
#[track_caller]
fn ends_unreachable(finished: &Finished) {
    assert_eq!((finished.code, finished.stdout.as_str()), (75, ""), "{}", finished.stderr);
    let lines: Vec<_> = finished.stderr.lines().filter(|line| !line.starts_with("note: ")).collect();
    assert!(lines.len() == 1 && lines[0].starts_with("error: "), "{}", finished.stderr);
}

#[test]
fn without_a_connection_a_command_ends_with_one_sentence() {
    let workplace = corpus(40);
    let server = Server::start(|_| Reply::Hang);
    let url = server.base_url();
    ask(&workplace, &server);
    drop(server);
    workplace.write("test.jsonl", json!({ "question": "1 + 1?", "answer": "#### 2" }).to_string());
    let count = "SELECT count(ai_complete(question)) AS n FROM corpus";
    for url in [url.as_str(), "http://no-such-host.invalid/v1"] {
        let set = format!("asap.anchor.base_url={url}");
        ends_unreachable(&workplace.run(["run", "asap", "--from", "in", "--to", "out", "--set", &set]));
        ends_unreachable(&workplace.run(["sql", "-q", "--from", "in", "-c", count, "--set", &set]));
        let eval = ["eval", "--bench", "gsm8k", "--data", "test.jsonl", "--model", "m", "--to", "e", "--endpoint", url];
        ends_unreachable(&workplace.run(eval));
    }
    assert!(!workplace.path("out/_delta_log").exists());
}
