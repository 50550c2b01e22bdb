//! Anchoring by a language model from the user's view: cost, answer cache, refusals and output.

mod dry_run;
mod endpoint;
mod forms;
mod tls;

use std::time::Duration;

use crate::common::{Finished, Workplace, files_below};
use crate::runs::place::Running;
use crate::runs::seeded::Dice;
use crate::support::anchorer::{ask, model, write_corpus};
use asap_test_support::{Call, Reply, Server};
use serde_json::{Value, json};

/// A workplace with `rows` distinct rows.
fn corpus(rows: usize) -> Workplace {
    let workplace = Workplace::new();
    write_corpus(&workplace, rows, "in/rows.parquet");
    workplace
}

/// The arguments of a run with settings.
fn arguments<'a>(pipeline: &'a str, to: &'a str, settings: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", pipeline, "--from", "in", "--to", to, "--format", "json"];
    run.into_iter().chain(settings.iter().flat_map(|setting| ["--set", setting])).collect()
}

fn run(workplace: &Workplace, to: &str, server: &Server, settings: &[&str]) -> Finished {
    ask(workplace, server);
    workplace.run(arguments("asap", to, settings))
}

/// Checks that a run failed with a code and each of the texts, and committed nothing.
#[track_caller]
fn commits_nothing(workplace: &Workplace, run: Finished, code: i32, texts: &[&str]) {
    run.ends(code, texts);
    assert!(!workplace.path("out/_delta_log").exists());
}

fn paid(summary: &Value) -> (u64, u64) {
    (summary["anchor"]["calls"].as_u64().unwrap(), summary["anchor"]["cache_hits"].as_u64().unwrap())
}

/// Copies the answer cache of an output to a new output.
fn take_answers(workplace: &Workplace, from: &str, to: &str) {
    let (from, to) = (workplace.path(&format!("{from}/.asap/cache")), workplace.path(&format!("{to}/.asap/cache")));
    std::fs::create_dir_all(&to).unwrap();
    for entry in from.read_dir().unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_as_one_that_is_not_and_pays_once() {
    const ROWS: usize = 2000;
    const KILLS: usize = 20;
    const AT_ONCE: usize = 32;
    let workplace = corpus(ROWS);
    let slow = |call: &Call| Reply::After(Duration::from_millis(2), Box::new(model(call)));
    let settings = ["asap.anchor.max_concurrent_requests=32"];
    let whole = Server::start(slow);
    ask(&workplace, &whole);
    workplace.run(arguments("without_surprisal", "whole", &settings)).ok();
    assert_eq!(whole.count(), 2 * ROWS);

    let server = Server::start(slow);
    ask(&workplace, &server);
    let arguments = arguments("without_surprisal", "killed", &settings);
    let mut dice = Dice::new(7, 0);
    for _ in 0..KILLS {
        let end = server.count() + 1 + dice.below(2 * (ROWS / KILLS) as u64 - 1) as usize;
        let mut killed = Running::start(workplace.command(&arguments));
        killed.wait_until("the next kill", || server.count() >= end);
        killed.kill();
        assert!(!workplace.path("killed/_delta_log").exists());
    }
    let summary = workplace.run(&arguments).json();
    assert_eq!(summary["rows_out"].as_u64(), Some(ROWS as u64));
    assert!(paid(&summary).1 > 0);
    let rows = "SELECT * EXCEPT (cached) FROM t ORDER BY source['row']";
    let [killed, whole] = ["killed", "whole"].map(|table| workplace.rows_of(table, rows));
    assert!(killed == whole && killed.len() == ROWS, "rows differ");
    let paid_twice = server.answered() - 2 * ROWS;
    assert!(paid_twice <= KILLS * (AT_ONCE + 64), "{paid_twice} calls were paid twice");
}

/// Runs a pipeline that does not expose a failed call.
fn run_silent(workplace: &Workplace, server: &Server, settings: &[&str]) -> Finished {
    silent_pipeline(workplace);
    ask(workplace, server);
    workplace.run(arguments("silent.sql", "out", settings))
}

fn silent_pipeline(workplace: &Workplace) {
    let sql = "SELECT source, question, cot, answer, ai_complete(question) AS said, status, error FROM corpus";
    workplace.write("silent.sql", sql);
}

#[test]
fn calls_under_way_are_kept_when_a_run_ends_early() {
    let workplace = corpus(30);
    // Three denials end the run while the others are in flight.
    let server = Server::start(|call| match call.number {
        0..3 => Reply::After(Duration::from_millis(300), Box::new(Reply::error(403, "no"))),
        _ => Reply::After(Duration::from_secs(1), Box::new(model(call))),
    });
    let settings = ["asap.anchor.max_concurrent_requests=16", "asap.anchor.max_retries=0", "asap.on_error=fail"];
    run(&workplace, "out", &server, &settings).ends(1, &["denied"]);
    let answered = server.count() - 3;
    let stats = workplace.run(["table", "vacuum", "out", "--answers", "--dry-run", "--format", "json"]).json();
    assert_eq!(stats["answers"].as_u64(), Some(answered as u64), "{stats}");
    assert!(answered >= 5, "{answered}");
}

#[test]
fn the_key_is_sent_and_shown_nowhere() {
    let workplace = corpus(6);
    // The server sends the key back in answers, refusals, failures and redirections, also with escaped slashes.
    let server = Server::start(|call| {
        let header = call.head.lines().find(|line| line.starts_with("authorization")).unwrap_or_default();
        match (call.prompt().starts_with("What is"), call.number % 4) {
            (true, 0) => Reply::Status(302, vec![("location", format!("/{header}"))], String::new()),
            (true, 1) => Reply::Status(400, vec![], json!({ "oops": header }).to_string().replace('/', "\\/")),
            (true, 2) => Reply::Status(200, vec![], header.to_string()),
            (true, _) => Reply::error(401, header),
            (_, 0) => Reply::error(400, header),
            (_, 1) => Reply::error(503, header),
            (_, 2) => Reply::Text(format!("{header}\n\n{header}")),
            _ => model(call),
        }
    });
    let (variable, hidden) = ("LLM_KEY", "456789-do-not-show");
    let key = format!("sk-0123/{hidden}");
    let named = format!("asap.anchor.api_key_env={variable}");
    ask(&workplace, &server);
    let sql = "EXPLAIN ANALYZE VERBOSE SELECT cot_anchor(question, answer) FROM corpus";
    let explain = vec!["sql", "--from", "in", "-c", sql, "--set", &named];
    let denied = vec!["sql", "--from", "in", "-c", "SELECT ai_complete(question) FROM corpus", "--set", &named];
    let mut texts = Vec::new();
    for (arguments, codes) in [(arguments("asap", "out", &[&named]), &[0][..]), (explain, &[0]), (denied, &[0, 1])] {
        let mut command = workplace.command(&arguments);
        let finished = Finished::of(command.env(variable, &key).env("RUST_LOG", "trace")).ends_in(codes, &[]);
        texts.extend([finished.stdout.into_bytes(), finished.stderr.into_bytes()]);
    }
    let below = |folder: &'static str| {
        files_below(&workplace.path(folder)).into_iter().map(move |name| format!("{folder}/{name}"))
    };
    let written: Vec<String> = ["out", ".cache"].into_iter().flat_map(below).collect();
    assert!(written.iter().filter(|name| name.ends_with(".answers.parquet")).count() >= 2);
    let read = workplace.csv(&["SELECT status, answer FROM 'out/.asap/cache'"]);
    assert!(read.lines().count() > 2, "{read}");
    texts.push(read.into_bytes());
    texts.extend(written.iter().map(|name| std::fs::read(workplace.path(name)).unwrap()));
    let holds = |part: &str| texts.iter().any(|text| text.windows(part.len()).any(|window| window == part.as_bytes()));
    assert!(holds("[api key]") && !holds(hidden));
    assert!(server.calls().iter().all(|call| call.head.contains(&format!("authorization: Bearer {key}"))));
}

/// Runs statements over the corpus with `server` as the language model.
fn sql(workplace: &Workplace, server: &Server, settings: &[&str], statements: &[&str]) -> Finished {
    ask(workplace, server);
    let statements = statements.iter().flat_map(|statement| ["-c", statement]);
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let sql = ["sql", "-q", "--from", "in", "--format", "csv"];
    workplace.run(sql.into_iter().chain(statements).chain(settings))
}

#[test]
fn small_batches_do_not_keep_the_server_idle() {
    let workplace = corpus(130);
    let server = Server::start(|_| Reply::After(Duration::from_millis(500), Box::new(Reply::text("yes"))));
    let commands = ["SET datafusion.execution.batch_size = 8", "SELECT count(ai_complete(question)) AS n FROM corpus"];
    assert_eq!(sql(&workplace, &server, &[], &commands).ok(), "n\n130\n");
    assert_eq!((server.count(), server.most_at_once()), (130, 64));
}

#[test]
fn what_answers_cost_above_their_reservations_counts_for_the_day() {
    let workplace = corpus(40);
    // Reasoning that max_tokens does not limit: each answer costs 10 times its reservation.
    let server = Server::start(|call| match model(call) {
        Reply::Text(text) => {
            let answer = json!({
                "choices": [{ "message": { "content": text }, "finish_reason": "stop" }],
                "usage": { "prompt_tokens": 100, "completion_tokens": 200 },
            });
            Reply::After(Duration::from_millis(500), Box::new(Reply::Json(answer)))
        }
        reply => reply,
    });
    let settings = [
        "asap.anchor.price_per_million_output_tokens=50000",
        "asap.anchor.max_tokens=20",
        "asap.anchor.max_concurrent_requests=8",
        "asap.anchor.max_cost=11",
    ];
    for _ in 0..3 {
        run(&workplace, "a", &server, &settings).ends(1, &["is spent on this output today"]);
        // The cost of the first 8 calls is known only after their answers.
        assert_eq!(server.count(), 8);
    }
    let failed = run(&workplace, "a", &server, &settings);
    assert!(failed.stderr.contains("80.000000 is spent"), "{}", failed.stderr);
}

#[test]
fn a_request_that_a_killed_process_claimed_is_asked_for_again() {
    let workplace = corpus(4);
    let silent = Server::start(|_| Reply::Hang);
    ask(&workplace, &silent);
    let mut killed = Running::start(workplace.command(arguments("asap", "out", &[])));
    killed.wait_until("the calls", || silent.count() == 4);
    killed.kill();
    let server = Server::start(model);
    run(&workplace, "out", &server, &[]).ok();
    assert_eq!(server.count(), 8);
}
